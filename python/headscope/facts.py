# SPDX-License-Identifier: Apache-2.0
"""What a layer is, for the trace: read from the call of its attention, its module and the configuration."""
import dataclasses
import sys

import torch

from headscope import layout as trace_layout
from headscope import own_order
from headscope.errors import BadInputError
from headscope.layout import LayerFacts
from headscope.observed import QUERY_NORMS


@dataclasses.dataclass(frozen=True)
class Family:
    """What a pass of a model does not always show (observed.py), and its family's name tells."""

    interleaved: bool = False  # neighbours turn together, and there is no rotate_half that would show it
    rope_on_windows_only: bool = False  # layers with a window alone know positions
    output_gate: int = 0  # a trace's number: 1 for each head, 2 for each component
    norm_after_rope: bool = False


_GATED_EACH_HEAD, _GATED_EACH_COMPONENT = Family(output_gate=1), Family(output_gate=2)
_LLAMA4, _WINDOWS_KNOW_POSITIONS = Family(interleaved=True, norm_after_rope=True), Family(rope_on_windows_only=True)
_NORM_BEHIND = Family(norm_after_rope=True)
# By model_type; others are shown by a pass, or have nothing of this.
FAMILIES = {
    "afmoe": Family(rope_on_windows_only=True, output_gate=2),
    "cohere2": _WINDOWS_KNOW_POSITIONS,
    "cohere2_moe": _WINDOWS_KNOW_POSITIONS,
    "deepseek_v2": Family(interleaved=True),
    "exaone4": _WINDOWS_KNOW_POSITIONS,
    "exaone4_5": _WINDOWS_KNOW_POSITIONS,
    "exaone_moe": _WINDOWS_KNOW_POSITIONS,
    "hunyuan_v1_dense": _NORM_BEHIND,
    "hunyuan_v1_moe": _NORM_BEHIND,
    "laguna": _GATED_EACH_HEAD,
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "qwen3_5": _GATED_EACH_COMPONENT,
    "qwen3_5_moe": _GATED_EACH_COMPONENT,
    "qwen3_5_moe_text": _GATED_EACH_COMPONENT,
    "qwen3_5_text": _GATED_EACH_COMPONENT,
    "qwen3_next": _GATED_EACH_COMPONENT,
    "step3p5": _GATED_EACH_HEAD,
    "step3p7": _GATED_EACH_HEAD,
}
_LINEAR_KINDS = ("linear_attention", "mamba", "recurrent", "gated_deltanet", "lightning")


@dataclasses.dataclass
class Call:
    """One attention call: shapes and what the module handed over by keyword."""

    module: torch.nn.Module
    layer: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    num_queries: int
    num_keys: int
    dtype: torch.dtype
    scaling: float
    soft_cap: float
    window: int
    is_causal: bool
    sinks: torch.Tensor | None
    query_factor: float  # in the queries that it hands over: scaling is that of queries without it
    pairs_apart: bool  # of what turns by position (own_order.py)
    turns_backwards: bool
    refused: str  # the keyword of something that a trace cannot hold
    # Kept while the layers are looked at:
    query: torch.Tensor | None = None
    key: torch.Tensor | None = None
    output: torch.Tensor | None = None  # [batch, rows, heads, v_head_dim]

    @classmethod
    def of(cls, module, query, key, value, options):
        window = options.get("sliding_window", getattr(module, "sliding_window", None))
        causal = options.get("is_causal")
        scaling = options.get("scaling")
        scaling = float(query.shape[3] ** -0.5 if scaling is None else scaling)
        factor = own_order.query_factor(module, scaling)
        return cls(
            module=module,
            layer=getattr(module, "layer_idx", None),
            num_qo_heads=query.shape[1],
            num_kv_heads=key.shape[1],
            head_dim=query.shape[3],
            v_head_dim=value.shape[3],
            num_queries=query.shape[2],
            num_keys=key.shape[2],
            dtype=query.dtype,
            scaling=scaling * factor,
            soft_cap=float(options.get("softcap") or 0.0),
            window=int(window) if isinstance(window, int) and not isinstance(window, bool) else 0,
            is_causal=bool(getattr(module, "is_causal", True) if causal is None else causal),
            sinks=options.get("s_aux"),
            query_factor=factor,
            pairs_apart=own_order.pairs_stand_apart(module),
            turns_backwards=own_order.turns_backwards(module),
            refused="position_bias" if options.get("position_bias") is not None else "cache" if options.get("cache") is not None else "",
        )


def family_of(config):
    return FAMILIES.get(config.model_type, Family())


def text_config(model):
    return model.config.get_text_config(decoder=True)


def layer_type(config, layer):
    """transformers' name of a layer's kind, or an empty text."""
    types = getattr(config, "layer_types", None)
    return types[layer] if types and layer < len(types) else ""


def layer_kind(config, layer):
    """Of a layer that is not recorded, as far as the configuration says it."""
    name = layer_type(config, layer)
    if any(part in name for part in _LINEAR_KINDS):
        return trace_layout.LINEAR
    if name in ("conv", "moe", "mlp"):
        return trace_layout.NONE
    if "sliding" in name and getattr(config, "sliding_window", None):
        return trace_layout.SLIDING
    return trace_layout.CHUNKED if "chunked" in name else trace_layout.ATTENTION


def facts_of(model, call, earlier, rotary, seen):
    """LayerFacts of a layer, all heads recorded.

    seen: the Observer of the pass that made the call.
    earlier: calls of the layers before it, with their keys; rotary: the model's module that makes cosines and sines, or None where it has none.
    """
    config = text_config(model)
    if call.refused:
        raise BadInputError(f"{name_of(model)}: layer {call.layer}: it hands over {call.refused}, which a trace cannot hold; record a model without it")
    if call.num_qo_heads % call.num_kv_heads:
        raise BadInputError(f"{name_of(model)}: layer {call.layer}: {call.num_qo_heads} query heads over {call.num_kv_heads} KV heads do not divide; a trace cannot hold that")
    kind = layer_type(config, call.layer)
    facts = LayerFacts(call.num_qo_heads, call.num_kv_heads, call.head_dim, call.v_head_dim)
    facts.qo_heads, facts.kv_heads = tuple(range(call.num_qo_heads)), tuple(range(call.num_kv_heads))
    facts.softmax_scale, facts.soft_cap = call.scaling, call.soft_cap
    facts.window = 0 if kind.startswith("full") or kind.startswith("chunked") else call.window
    facts.chunk = int(getattr(config, "attention_chunk_size", 0) or 0) if kind.startswith("chunked") else 0
    if call.sinks is not None:
        facts.sinks = call.sinks.detach().float().flatten().cpu().numpy()
    facts.bidirectional = int(not call.is_causal)
    if facts.bidirectional and (facts.window or facts.chunk):
        raise BadInputError(f"{name_of(model)}: layer {call.layer}: its window reaches to both sides, which a trace cannot hold; record a model without windows")
    facts.kv_layer = _kv_layer(call, earlier)
    turned = None
    if rotary is not None and call.query is not None and call.num_queries > 1:
        turned = seen.turned(call.module, call.query.detach())
    _set_rope(facts, config, call, rotary, turned)
    facts.norm = _norm(config, call, facts, seen)
    gate = seen.output_gate(call.module, call.output)
    facts.output_gate = gate if gate is not None else family_of(config).output_gate
    return facts


def name_of(model):
    return f"model {model.config.model_type} ({type(model).__name__})"


def _norm(config, call, facts, seen):
    module, after = call.module, family_of(config).norm_after_rope
    if facts.rope_convention and call.num_queries > 1:
        observed = seen.norm_follows_turn(module, call.query)
        after = after if observed is None else observed
    norm = next((getattr(module, name) for name in QUERY_NORMS if getattr(module, name, None) is not None), None)
    if norm is None:
        return 1
    weight = getattr(norm, "weight", None)
    all_heads = weight is not None and weight.ndim == 1 and weight.numel() == call.num_qo_heads * call.head_dim and call.num_qo_heads > 1
    return (5 if after else 4) if all_heads else (3 if after else 2)


def _kv_layer(call, earlier):
    """The earlier layer whose keys this one was given, the very same tensor, as Gemma 3n's last layers are; -1: its own."""
    same = [other.layer for other in earlier if other.key.data_ptr() == call.key.data_ptr() and other.key.shape == call.key.shape]
    return same[0] if same else -1


def _turns(config, call, rotary, turned):
    """turned: what the pass showed (Observer.turned), which counts more than names do."""
    if rotary is None:
        return False
    if turned is not None:
        return bool(turned.any())
    if getattr(call.module, "use_rope", True) in (False, 0):
        return False
    pattern = getattr(config, "layer_types", None) or []
    if family_of(config).rope_on_windows_only and any("sliding" in kind for kind in pattern):
        return "sliding" in layer_type(config, call.layer)
    return True


def _interleaved(config, call):
    """Whether neighbours turn together. The family's own rotate_half tells it: of 0, 1, 2, 3 it makes -2, -3, 0, 1 or -1, 0, -3, 2."""
    rotate_half = getattr(sys.modules[type(call.module).__module__], "rotate_half", None)
    if rotate_half is None:
        return family_of(config).interleaved
    return rotate_half(torch.arange(4.0)).tolist()[0] == -1.0


def _rope_parameters(config, call, kind):
    """The configuration's for a layer, whatever it has one set of them for: the model, a kind of layers, or each layer."""
    rope = getattr(config, "rope_parameters", None) or {}
    if kind in rope:
        rope = rope[kind] if isinstance(rope[kind], dict) else {}
    theta = rope.get("rope_theta", getattr(config, "rope_theta", 0.0))
    of_layers = getattr(config, "layer_rope_theta", None)
    if of_layers and call.layer < len(of_layers) and of_layers[call.layer]:
        theta = of_layers[call.layer]
    return rope, float(theta) if isinstance(theta, (int, float)) else 0.0


def _set_rope(facts, config, call, rotary, turned):
    if not _turns(config, call, rotary, turned):
        facts.rope_convention = 0
        return
    facts.rope_convention = 2 if call.pairs_apart or _interleaved(config, call) else 1
    kind = getattr(call.module, "rope_layer_type", layer_type(config, call.layer))
    rope, facts.rope_theta = _rope_parameters(config, call, kind)
    frequencies = getattr(rotary, "original_inv_freq", None)
    if rope.get("alpha") and torch.is_tensor(frequencies) and len(frequencies) > 1:  # HunYuan's: theta is a larger one, whatever the length
        facts.rope_theta = float(frequencies[1].double() ** -len(frequencies))
    scaling = getattr(rotary, f"{kind}_attention_scaling", getattr(rotary, "attention_scaling", 1.0))
    facts.rope_attention_factor = float(scaling) if isinstance(scaling, (int, float)) else 1.0
    if (nope := getattr(call.module, "qk_nope_head_dim", None)) is not None:  # MLA: the last components turn
        facts.rope_first_dim, facts.rope_dims = int(nope), int(call.module.qk_rope_head_dim)
        return
    if rope.get("rope_type") == "proportional":  # pairs over the whole head, of which the last do not turn, as a frequency of 0 says
        return
    partial = rope.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", 1.0)) or 1.0
    turning = int(call.head_dim * partial)
    facts.rope_dims = 0 if turning >= call.head_dim else turning
    if facts.rope_dims and turned is not None and not turned[: call.head_dim - turning].any():  # the last ones turn
        facts.rope_first_dim = call.head_dim - turning
