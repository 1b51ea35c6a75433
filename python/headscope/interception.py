# SPDX-License-Identifier: Apache-2.0
"""Puts a listener between transformers' models and the attention functions that they call.

A model asks `AttentionInterface.get_interface(name, default)` for its attention at every call. While a listener is there, the answer is a function that
calls the very one that would have been answered, with the very arguments, and then tells the listener. So the model's attention stays under its own name
(eager, sdpa, flash_attention_2, ..), and with it the mask function that AttentionMaskInterface has under this name and every place in transformers that
compares names: what the model computes is the same to the last bit.
"""
import functools
import threading

from transformers.modeling_utils import AttentionInterface

_listeners = []
_lock = threading.Lock()
_original = None


def _interface_of(interfaces, attn_implementation, default):
    function = _original(interfaces, attn_implementation, default)
    if not _listeners:
        return function

    @functools.wraps(function)
    def told(module, query, key, value, attention_mask, *arguments, **options):
        output = function(module, query, key, value, attention_mask, *arguments, **options)
        for listener in tuple(_listeners):
            listener(attn_implementation or "eager", module, query, key, value, attention_mask, options)
        return output

    return told


def add(listener):
    """From now on listener(implementation, module, query, key, value, attention_mask, options) is called after every attention of every model."""
    global _original
    with _lock:
        if _original is None:
            _original = AttentionInterface.get_interface
            AttentionInterface.get_interface = _interface_of
        _listeners.append(listener)


def remove(listener):
    """Undoes add; with the last listener the interface is as it was."""
    global _original
    with _lock:
        _listeners.remove(listener)
        if not _listeners and AttentionInterface.get_interface is _interface_of:
            AttentionInterface.get_interface, _original = _original, None
