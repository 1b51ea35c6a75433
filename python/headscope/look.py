# SPDX-License-Identifier: Apache-2.0
"""What a model's layers are, which a pass of two tokens tells, without a cache: every layer's shapes, and what it hands over to its attention."""
import contextlib
import dataclasses
import inspect
import itertools
import threading
import types

import torch

from headscope import facts as layer_facts
from headscope import layout, model_files, visibility
from headscope.errors import BadInputError
from headscope.latent import Latent
from headscope.observed import Observer
from headscope.points import LayerPoints
from headscope.selection import chosen_of

_ENCODINGS = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}

_looking = threading.local()


class Look:
    """What a recording knows of its model's layers, from the last look at them.

    choice: what is recorded of them, as record takes it: layers, heads and kv_heads (numbers or None), rows, points, max_tokens, latent, prompt_source and task_answer.
    """

    def __init__(self, model, **choice):
        self._model, self._choice = model, types.SimpleNamespace(**choice)
        self.layout, self.bidirectional = None, False
        self.slots = {}  # id of a recorded attention module: its slot
        self.cross_slots = {}  # the same of those that attend to another sequence
        self.by_layer, self.latents, self.sinks, self.beside = {}, {}, {}, []
        self.roles = self.dtype = None
        self._calls = None  # while the layers are looked at: their calls
        self._chosen = {}  # of each layer whose indexer was called: its IndexVectors, or None
        self._state_before = None  # the state that a look before the first pass was made in
        self._position_axes, self._rotary, self._num_tokens = 0, None, 0
        self._handles = []

    def take_back(self):
        """The model is as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def runs(self):
        """Whether this one is at it."""
        return self._calls is not None

    def hear_indexer(self, layer, vectors):
        self._chosen[layer] = vectors

    def hear_rotary(self, module, positions):
        if positions.shape[-1] != self._num_tokens:  # of keys that a layer makes of several tokens
            return
        self._rotary = module
        self._position_axes = 3 if positions.ndim == 3 else 0

    def hear_attention(self, module, query, key, value, options, output):
        if torch.is_tensor(query) and query.ndim == 4 and _belongs(self._model, module):
            self._calls.append(layer_facts.Call.of(module, query, key, value, options))
            self._calls[-1].query, self._calls[-1].key, self._calls[-1].output = query, key, output

    def forget_where_changed(self):
        """Forgets what it saw before the first pass, where the model is not what it was."""
        if self._state_before is not None and self._state_before != self._state():
            self.layout = None
        self._state_before = None

    def ahead(self):
        """Looks at a decoder's layers before its first pass, which need not wait for that then. What fails here fails there, with what the model is given."""
        if self._model.config.is_encoder_decoder:
            return
        with contextlib.suppress(Exception):
            if "input_ids" not in inspect.signature(self._model.forward).parameters:
                return
            count, roles = self._model.get_input_embeddings().weight.shape[0], _roles(self._model.config) or {}
            # Two that differ, as rows must for what stands between them to show, and that are no picture's.
            tokens = list(itertools.islice((token for token in range(count // 3, count) if token not in roles), 2))
            self.at({"input_ids": torch.tensor([tokens], device=self._model.device)})
            self._state_before = self._state()

    def _state(self):
        """What a look at the layers depends on and a model's owner may change: its number types and devices, its modules, and autocast."""
        device = self._model.device.type
        autocast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        return autocast, [id(module) for module in self._model.modules()], [(one.dtype, one.device) for one in self._model.parameters()]

    def of_another_runs(self):
        """Whether another recording looks at the model's layers: that pass is nobody's prompt."""
        look = getattr(_looking, "look", None)
        return look is not None and look is not self

    def at(self, given):
        """One pass over the first two tokens, without a cache: every layer's shapes and what it hands over."""
        implementation = layer_facts.text_config(self._model)._attn_implementation
        if implementation in visibility.UNREADABLE:
            raise BadInputError(f"{layer_facts.name_of(self._model)}: {visibility.unreadable(implementation)}")
        options = {"use_cache": False}
        if self._model.config.is_encoder_decoder:
            kept = ("input_ids", "attention_mask", "input_features", "input_values", "encoder_outputs", "inputs_embeds")
            options |= {name: given[name] for name in kept if given.get(name) is not None}
            name = "decoder_input_ids"
            options[name] = given[name][:, :2]
        else:
            name = "input_ids" if given.get("input_ids") is not None else "inputs_embeds"
            options[name] = given[name][:1, :2]
        self._num_tokens = options[name].shape[1]
        devices = [one.device for one in options.values() if torch.is_tensor(one) and one.is_cuda]
        parameters = inspect.signature(self._model.forward).parameters
        if "use_cache" not in parameters and not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
            del options["use_cache"]
        self.take_back()  # of a look before
        seen = None
        try:
            self._calls, self._chosen, self._rotary, _looking.look = [], {}, None, self
            seen = Observer(self._model)
            with torch.no_grad(), torch.random.fork_rng(devices[:1]):
                self._model(**options)
            calls, self._calls = self._calls, None
            self.layout = self._layout_of(calls, seen)
        finally:
            self._calls = _looking.look = None
            if seen is not None:
                seen.stop()

    def _layout_of(self, calls, seen):
        model, config = self._model, layer_facts.text_config(self._model)
        name = layer_facts.name_of(model)
        if not calls:
            raise BadInputError(f"{name}: no layer asks transformers for its attention, so there is nothing to listen to; use a family that has an attention interface")
        crossing = self._crossing(calls)
        # Of a model with encoder and decoder the decoder; of an encoder alone its layers, whose rows see what comes after them.
        causal = [call for call in calls if call.is_causal]
        if not causal and all(call.layer is None for call in calls):
            calls = [dataclasses.replace(call, layer=number) for number, call in enumerate(calls)]  # one after the other
        calls = [call for call in causal or calls if call.layer is not None and call not in crossing]
        if not calls:
            raise BadInputError(f"{name}: its attentions have no layer_idx, so its layers cannot be told apart; use a family of language models")
        by_layer, of_module = {}, {}
        for call in calls:
            if (other := by_layer.setdefault(call.layer, call)) is not call:
                several = "calls its attention twice" if other.module is call.module else "has two attentions"
                raise BadInputError(f"{name}: layer {call.layer} {several}, and a trace holds one for each layer; record another model")
            if (other := of_module.setdefault(id(call.module), call)) is not call:
                raise BadInputError(f"{name}: layers {other.layer} and {call.layer} are one module, so they cannot be told apart; record another model")
        chosen = chosen_of(self._choice.layers, sorted(by_layer), "layer")
        in_order = list(by_layer.values())
        all_facts = {call.layer: layer_facts.facts_of(model, call, in_order[:i], self._rotary, seen) for i, call in enumerate(in_order)}
        self.latents = {}
        if self._choice.latent:
            self.latents = {layer: Latent(by_layer[layer].module, all_facts[layer], name) for layer in chosen}
            self._handles += [latent.handle for latent in self.latents.values()]
            all_facts |= {layer: latent.facts for layer, latent in self.latents.items()}
        self._set_selection(config, sorted(by_layer), all_facts)
        most = _most_common([(facts.num_qo_heads, facts.num_kv_heads, facts.head_dim) for facts in all_facts.values()])
        for layer in chosen:
            self._choose_heads(all_facts[layer])
        hidden_size = int(getattr(config, "hidden_size", 0) or 0)
        self.beside = [LayerPoints(model, by_layer[layer].module, all_facts[layer], self._choice.points, hidden_size, f"{name}: layer {layer}", self._handles) for layer in chosen]
        num_layers = max(int(getattr(config, "num_hidden_layers", 0) or 0), max(by_layer) + 1)
        kinds = [all_facts[layer].kind() if layer in all_facts else layer_facts.layer_kind(config, layer) for layer in range(num_layers)]
        dtype = by_layer[chosen[0]].dtype
        if dtype not in _ENCODINGS:
            raise BadInputError(f"{name}: queries are {dtype}, and a trace holds float32, bfloat16 or float16; load the model in one of them")
        self.dtype = dtype
        self.by_layer = {layer: by_layer[layer] for layer in chosen}
        self.bidirectional = any(all_facts[layer].bidirectional for layer in chosen)
        crossing = [call for call in crossing if call.layer in chosen]
        self.cross_slots = {id(call.module): slot for slot, call in enumerate(crossing)}
        cross_facts = [layer_facts.facts_of(model, call, [], None, seen) for call in crossing]
        for call in [*in_order, *crossing]:
            call.query = call.key = call.output = None
        for facts in cross_facts:
            self._choose_heads(facts)
        source_tokens = crossing[0].num_keys if crossing else 0
        self.slots = {id(by_layer[layer].module): slot for slot, layer in enumerate(chosen)}
        self.sinks = {slot: by_layer[layer].sinks for slot, layer in enumerate(chosen)}
        self.roles = _roles(model.config)
        return layout.Layout(
            *model_files.describe(model), num_layers, *most, chosen, [all_facts[layer] for layer in chosen],
            layer_kinds=kinds, encoding=_ENCODINGS[dtype], row_selection=self._choice.rows.text,
            prompt_source=self._choice.prompt_source, task_answer=self._choice.task_answer, max_tokens=self._choice.max_tokens or layout.MAX_TOKENS,
            has_roles=self.roles is not None, position_axes=self._position_axes,
            cross_layers=[call.layer for call in crossing], cross_facts=cross_facts, source_tokens=source_tokens,
        )  # fmt: skip

    def _choose_heads(self, facts):
        group, heads = facts.group_size(), self._choice.heads
        if self._choice.kv_heads is not None:
            heads = [head for kv_head in chosen_of(self._choice.kv_heads, range(facts.num_kv_heads), "KV head") for head in range(kv_head * group, (kv_head + 1) * group)]
        facts.qo_heads = tuple(chosen_of(heads, range(facts.num_qo_heads), "head"))
        facts.kv_heads = tuple(sorted({head // facts.group_size() for head in facts.qo_heads}))

    def _crossing(self, calls):
        """The calls by which a decoder attends to its encoder's sequence."""
        if not self._model.config.is_encoder_decoder:
            return []
        decoder = {id(module) for module in self._model.get_decoder().modules()}
        return [call for call in calls if not call.is_causal and id(call.module) in decoder and call.layer is not None]

    def _set_selection(self, config, layers, all_facts):
        """Layers whose model chooses keys by an indexer, or takes what a lower layer chose."""
        last = -1
        for layer in layers:
            if layer in self._chosen:
                last = layer
                all_facts[layer].selection_sets = 1
                all_facts[layer].selection_ids = min(int(config.index_topk), self._choice.max_tokens or layout.MAX_TOKENS, layout.MAX_SELECTED_IDS)
                vectors = self._chosen[layer]
                if vectors is not None and vectors.sizes()[2] == self._num_tokens:  # keys of a token each
                    all_facts[layer].index_heads, all_facts[layer].index_dim, _ = vectors.sizes()
                    all_facts[layer].index_kv_heads = 1
            elif last >= 0:
                all_facts[layer].selection_layer = last


def _belongs(model, module):
    """Whether an attention is of the language model: not of a tower for pictures or sound beside it."""
    config = getattr(module, "config", None)
    whole = model.config
    if config is None or config is whole:
        return True
    return config is layer_facts.text_config(model) or type(config) is type(layer_facts.text_config(model))


def _most_common(values):
    return max(values, key=values.count)


def _roles(config):
    """Roles of the tokens that stand for pictures, sound and film; None where the model has none."""
    found = {getattr(config, f"{name}_token_id", None): role for name, role in (("image", 2), ("audio", 3), ("video", 4))}
    found.pop(None, None)
    return found or None
