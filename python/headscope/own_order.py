# SPDX-License-Identifier: Apache-2.0
"""What modules of transformers do to q and k for their own convenience, undone: a trace has them as the model's weights make them, whoever records it.

Two things are done. OPT and Whisper multiply q by the scale of the scores before they ask for attention with a scale of 1. DeepSeek V3 and what is built like
it turn neighbouring components, as its weights mean it, and put the first of all pairs before the second of all pairs. Neither changes a score.

And where a model turns halves backwards, by minus the angle, as nanochat does, a trace has each pair's second component first: in this order the turn is the
one that a trace tells of, and scores stay what they are.
"""
import sys

import torch

_TURNED = ("q", "k", "cache_k")
_NOT_TURNED = ("q_pre_rope", "k_pre_rope", "q_projection", "k_projection")


def query_factor(module, scaling):
    """What the module multiplied its queries by, when it hands over `scaling`; 1.0: nothing."""
    own = getattr(module, "scaling", None)
    return float(own) if scaling == 1.0 and isinstance(own, float) and own > 0 else 1.0


def pairs_stand_apart(module):
    """Whether pairs that turn together were neighbours before the module turned them."""
    if not hasattr(sys.modules[type(module).__module__], "apply_rotary_pos_emb_interleave") or not hasattr(module, "qk_rope_head_dim"):
        return False
    return getattr(getattr(module, "config", None), "rope_interleave", True) is not False


def turns_backwards(module):
    """Whether halves are turned by minus the angle. The family's own rotate_half tells it: of 0, 1, 2, 3 it makes 2, 3, 0, -1 in place of -2, -3, 0, 1."""
    rotate_half = getattr(sys.modules[type(module).__module__], "rotate_half", None)
    return rotate_half is not None and rotate_half(torch.arange(4.0)).tolist()[0] == 2.0


def key_factor(module):
    """What Falcon H1 multiplies its keys by between projection and turn."""
    factor = getattr(module, "key_multiplier", None)
    return float(factor) if isinstance(factor, (int, float)) else 1.0


def without_factor(query, factor):
    return query if factor == 1.0 else (query.float() / factor).to(query.dtype)


def stored(name, values, call, facts):
    """Values [.., head_dim] of the tensor `name` as a trace has them."""
    first, half = facts.rope_first_dim, (facts.rope_dims or facts.head_dim) // 2
    parts = values[..., :first], values[..., first : first + half], values[..., first + half : first + 2 * half], values[..., first + 2 * half :]
    if call.pairs_apart and name in _TURNED:
        return torch.cat([parts[0], torch.stack(parts[1:3], -1).flatten(-2), parts[3]], -1)
    if call.turns_backwards and facts.rope_convention and name in _TURNED + _NOT_TURNED:
        return torch.cat([parts[0], parts[2], parts[1], parts[3]], -1)
    return values
