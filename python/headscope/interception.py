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

# Fused kernels whose second output is each row's log-sum-exp in any case, natural logarithm, [batch, heads, rows].
_WITH_LSE = (torch.ops.aten._scaled_dot_product_flash_attention.default, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)

_CHANGES = ("reorder_cache", "batch_select_indices", "batch_repeat_interleave")
_listeners = []
_lock = threading.Lock()
_original = None
_unmarked = {}


class _KernelsLse(TorchDispatchMode):
    """Looks at what runs inside an attention function: torch's flash attention throws away a log-sum-exp that need not be computed again."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        if operation is torch.ops.aten.scaled_dot_product_attention.default:  # under torch.inference_mode it comes here whole
            with self:
                return operation.decompose(*arguments, **(options or {}))
        output = operation(*arguments, **(options or {}))
        if operation in _WITH_LSE:
            self.found.append(output[1])
        return output

    def of(self, query):
        """float32 [batch, heads, rows] for queries of that shape; None where no kernel told it, or several did."""
        if len(self.found) != 1 or self.found[0].numel() != query.shape[:3].numel():
            return None
        return self.found[0].reshape(query.shape[:3])  # a decode step may have put a group's heads where the rows are


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
