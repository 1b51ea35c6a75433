# SPDX-License-Identifier: Apache-2.0
"""Puts a listener between transformers' models and the attention functions that they call.

A model asks `AttentionInterface.get_interface(name, default)` for its attention at every call. While a listener is there, the answer is a function that
calls the very one that would have been answered, with the very arguments, and then tells the listener. So the model's attention stays under its own name
(eager, sdpa, flash_attention_2, ..), and with it the mask function that AttentionMaskInterface has under this name and every place in transformers that
compares names: what the model computes is the same to the last bit.
"""
import contextlib
import functools
import threading

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.cache_utils import Cache
from transformers.modeling_utils import AttentionInterface

# Fused kernels whose second output is each row's log-sum-exp, natural logarithm, [batch, heads, rows]: in any case, or where they are asked for it.
_WITH_LSE = (torch.ops.aten._scaled_dot_product_flash_attention.default, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)
_ON_REQUEST = (torch.ops.aten._scaled_dot_product_cudnn_attention.default, torch.ops.aten._scaled_dot_product_efficient_attention.default)

_MOST_SHAPES = 256

_CHANGES = ("reorder_cache", "batch_select_indices", "batch_repeat_interleave")
_listeners = []
_lock = threading.Lock()
_original = None
_unmarked = {}


def _layout_of(value):
    return (value.shape, value.stride(), value.dtype, value.device) if torch.is_tensor(value) else value


def _same_bits(a, b):
    whole_numbers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return torch.equal(a.view(whole_numbers), b.view(whole_numbers))


class _KernelsLse(TorchDispatchMode):
    """Looks at what runs inside an attention function: torch's fused attention throws away a log-sum-exp that need not be computed again.

    Some of its kernels make one on request alone. They are asked for it where that changes no bit of what the model gets, which the first call of each
    shape is compared for.
    """

    same_with_lse = {}  # by kernel and arguments' shapes: whether its output is the same to the last bit

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        if operation is torch.ops.aten.scaled_dot_product_attention.default:  # under torch.inference_mode it comes here whole
            with self:
                return operation.decompose(*arguments, **(options or {}))
        if operation in _ON_REQUEST:
            return self._asked(operation, arguments, options or {})
        output = operation(*arguments, **(options or {}))
        if operation in _WITH_LSE:
            self.found.append(output[1])
        return output

    def _asked(self, operation, arguments, options):
        names = [argument.name for argument in operation._schema.arguments]
        given = dict(zip(names, arguments)) | options
        # A bias may make it the sum of other scores; dropout would draw its numbers twice; and a single row costs less than a comparison for each length.
        if given.get("attn_bias") is not None or given.get("dropout_p") or given["query"].shape[-2] == 1:
            return operation(*arguments, **options)
        if not given["compute_log_sumexp"]:
            shape = (operation, *(_layout_of(given.get(name)) for name in names))
            same = self.same_with_lse.get(shape)
            if same is False:
                return operation(*arguments, **options)
        output = operation(**(given | {"compute_log_sumexp": True}))
        if not given["compute_log_sumexp"] and same is None:
            plain = operation(*arguments, **options)
            same = _same_bits(plain[0], output[0])
            # Rows that are all alike may be so by any way to compute them.
            if not same or (plain[0] != plain[0][..., :1, :]).any():
                if len(self.same_with_lse) >= _MOST_SHAPES:
                    self.same_with_lse.clear()
                self.same_with_lse[shape] = same
            if not same:
                return plain
        self.found.append(output[1])
        return output

    def of(self, query):
        """float32 [batch, heads, rows] for queries of that shape; None where no kernel told it, or several did."""
        if len(self.found) != 1:
            return None
        found, (batch, heads, rows) = self.found[0], query.shape[:3]
        if found.ndim == 3 and found.shape[:2] == (batch, heads) and found.shape[2] > rows:
            found = found[..., :rows]  # the kernel fills its rows up
        if found.numel() != batch * heads * rows:
            return None
        return found.reshape(batch, heads, rows)  # a decode step may have put a group's heads where the rows are


def _interface_of(interfaces, attn_implementation, default):
    function = _original(interfaces, attn_implementation, default)
    if not _listeners:
        return function

    @torch.compiler.disable  # a compiled model calls this from outside of its graphs
    @functools.wraps(function)
    def told(module, query, key, value, attention_mask, *arguments, **options):
        kernels = _KernelsLse()
        with contextlib.nullcontext() if attn_implementation == "flex_attention" else kernels:  # torch has no rule for it there
            output = function(module, query, key, value, attention_mask, *arguments, **options)
        lse = kernels.of(query)
        for listener in tuple(_listeners):
            listener(attn_implementation or "eager", module, query, key, value, attention_mask, options, lse, output[0])
        return output

    return told


def _marking(function):
    @functools.wraps(function)
    def marked(cache, *arguments, **options):
        cache.headscope_mixed = True
        return function(cache, *arguments, **options)

    return marked


def mixed(cache):
    """Whether a cache's sequences were put in another order since a listener is there, as beams do."""
    return getattr(cache, "headscope_mixed", False) or getattr(getattr(cache, "self_attention_cache", None), "headscope_mixed", False)


def inner(cache):
    """What holds a decoder's own tokens: a family may put another cache around the one that it was given."""
    return getattr(cache, "self_attention_cache", cache)


def mark(cache, recording, prompts):
    """Says of a cache whose tokens it holds. A mark of plain numbers is in its copies, too."""
    inner(cache).headscope_prompts = getattr(inner(cache), "headscope_prompts", {}) | {recording: prompts}


def marked_as(cache, recording):
    """What this recording's last mark on the cache says; None: it has none."""
    return getattr(inner(cache), "headscope_prompts", {}).get(recording)


def add(listener):
    """From now on listener(implementation, module, query, key, value, attention_mask, options, lse, output) is called after every attention of every model.

    lse: each row's log-sum-exp over the keys that the mask shows, float32 [batch, heads, rows], where the kernel told it; else None.
    output: [batch, rows, heads, v_head_dim].
    """
    global _original
    with _lock:
        if _original is None:
            _original = AttentionInterface.get_interface
            AttentionInterface.get_interface = _interface_of
            for name in _CHANGES:
                _unmarked[name] = getattr(Cache, name)
                setattr(Cache, name, _marking(_unmarked[name]))
        _listeners.append(listener)


def remove(listener):
    """Undoes add; with the last listener the interface is as it was."""
    global _original
    with _lock:
        _listeners.remove(listener)
        if not _listeners and AttentionInterface.get_interface is _interface_of:
            AttentionInterface.get_interface, _original = _original, None
            for name, function in _unmarked.items():
                setattr(Cache, name, function)
            _unmarked.clear()
