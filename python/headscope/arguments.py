# SPDX-License-Identifier: Apache-2.0
"""What record is called with, refused by its name before anything is computed where it is of another kind."""
import operator
import os

import torch

from headscope.errors import BadInputError, UsageError


def path(value):
    """A path as text."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise UsageError(f"output {value!r}: must be a path; name a file that ends in .h5")
    return os.fsdecode(value)


def count(value, field):
    """A number of tokens, or None."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise UsageError(f"{field} {value!r}: must be a whole number from 1 on; leave it out where it is not known")
    return number


def text(value, field):
    """A text of the trace; None: none."""
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{field} {value!r}: must be a text; convert it with str()")
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        raise UsageError(f"{field} {value!r}: holds half of a surrogate pair, which UTF-8 has no bytes for; leave it out") from None
    return value or ""


def tokenizer(value):
    if value is not None and not hasattr(value, "convert_ids_to_tokens"):
        raise UsageError(f"tokenizer: {type(value).__name__} is none of transformers; load it with AutoTokenizer.from_pretrained, or leave it out")
    return value


def _is_on_meta(model):
    on_meta = [parameter.is_meta for parameter in model.parameters()]
    return bool(on_meta) and all(on_meta)


def require_model(model):
    """One whose forward passes can be recorded."""
    if hasattr(model, "_orig_mod"):
        raise UsageError("model: it is the compiled form of a model; give the model itself (model._orig_mod), and call whichever you like")
    if isinstance(model, torch.nn.Module) and not hasattr(model, "config") and hasattr(getattr(model, "module", None), "config"):
        raise UsageError(f"model: {type(model).__name__} wraps the model; give and call the model itself (model.module)")
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise UsageError(f"model: {type(model).__name__} is no model of transformers; load one, as AutoModelForCausalLM.from_pretrained does")
    # Of a model that is loaded layer by layer as it runs, some or all weights are there too.
    if not hasattr(model, "hf_device_map") and _is_on_meta(model):
        raise BadInputError(f"model {type(model).__name__}: its weights are on the meta device, where nothing is computed; load it with from_pretrained")


def require_ids(ids, name):
    """Token ids [sequences, tokens]."""
    if not torch.is_tensor(ids) or ids.ndim != 2:
        found = f"a tensor {list(ids.shape)}" if torch.is_tensor(ids) else type(ids).__name__
        raise UsageError(f"{name}: it is {found}, and must be a tensor [sequences, tokens]; give such as torch.tensor([[1, 2, 3]])")
    if ids.shape[0] == 0 or ids.shape[1] == 0:
        raise UsageError(f"{name}: it has no tokens; give at least one")
