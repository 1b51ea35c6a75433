# SPDX-License-Identifier: Apache-2.0
"""What modules of transformers do to q and k for their own convenience, undone: a trace has them as the model's weights make them, whoever records it.

Two things are done. OPT and Whisper multiply q by the scale of the scores before they ask for attention with a scale of 1. DeepSeek V3 and what is built like
it turn neighbouring components, as its weights mean it, and put the first of all pairs before the second of all pairs. Neither changes a score.
"""
import sys

import torch


def query_factor(module, scaling):
    """What the module multiplied its queries by, when it hands over `scaling`; 1.0: nothing."""
    own = getattr(module, "scaling", None)
    return float(own) if scaling == 1.0 and isinstance(own, float) and own > 0 else 1.0


def pairs_stand_apart(module):
    """Whether pairs that turn together were neighbours before the module turned them."""
    if not hasattr(sys.modules[type(module).__module__], "apply_rotary_pos_emb_interleave") or not hasattr(module, "qk_rope_head_dim"):
        return False
    return getattr(getattr(module, "config", None), "rope_interleave", True) is not False


def without_factor(query, factor):
    return query if factor == 1.0 else (query.float() / factor).to(query.dtype)


def neighbours(values, facts):
    """Values [.., head_dim] whose turned pairs stand apart, with each pair's two side by side."""
    first, half = facts.rope_first_dim, facts.rope_dims // 2
    one, two = values[..., first : first + half], values[..., first + half : first + 2 * half]
    return torch.cat([values[..., :first], torch.stack([one, two], -1).flatten(-2), values[..., first + 2 * half :]], -1)
