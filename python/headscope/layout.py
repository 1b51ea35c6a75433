# SPDX-License-Identifier: Apache-2.0
"""Trace format 2 as tables: what a trace says of its model and layers, and which tensors it stores of them.

docs/trace_format.md is the reference; names and limits are those of the C++ room data/.
"""
import dataclasses
import math

import numpy as np

FORMAT_NAME, FORMAT_VERSION = "headscope-trace", 2
BIDIRECTIONAL_VERSION = 3  # of a trace that has a layer whose rows see what comes after them
MAX_LAYERS = MAX_HEADS = MAX_HEAD_DIM = 4096
MAX_SELECTED_IDS = MAX_HIDDEN_SIZE = 65536
MAX_TOKENS = 2**31 - 1
MAX_CONFIG_BYTES = 16 << 20
MAX_ATTRIBUTE_TEXT = 16384
CHUNK_BYTES = 256 * 1024

ENCODING_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# Kinds of layers in /model/layer_kinds.
ATTENTION, SLIDING, CHUNKED, LINEAR, NONE = range(5)

# name, always written, usual value, least, greatest: the columns of /layers, in the order of the file.
INTEGER_COLUMNS = (
    ("num_qo_heads", True, 0, 1, MAX_HEADS),
    ("num_kv_heads", True, 0, 1, MAX_HEADS),
    ("head_dim", True, 0, 1, MAX_HEAD_DIM),
    ("v_head_dim", True, 0, 1, MAX_HEAD_DIM),
    ("window", False, 0, 0, MAX_TOKENS),
    ("chunk", False, 0, 0, MAX_TOKENS),
    ("rope_convention", False, 1, 0, 2),
    ("rope_dims", False, 0, 0, MAX_HEAD_DIM),
    ("rope_first_dim", False, 0, 0, MAX_HEAD_DIM),
    ("norm", False, 0, 0, 5),
    ("output_gate", False, 0, 0, 2),
    ("v_is_k", False, 0, 0, 1),
    ("kv_layer", False, -1, -1, MAX_LAYERS - 1),
    ("selection_layer", False, -1, -1, MAX_LAYERS - 1),
    ("has_pre_rope", False, 0, 0, 1),
    ("has_value_norms", False, 0, 0, 1),
    ("has_hidden_norms", False, 0, 0, 1),
    ("selection_sets", False, 0, 0, MAX_HEADS),
    ("selection_ids", False, 0, 0, MAX_SELECTED_IDS),
    ("selection_block", False, 1, 1, MAX_TOKENS),
    ("index_heads", False, 0, 0, MAX_HEADS),
    ("index_kv_heads", False, 0, 0, MAX_HEADS),
    ("index_dim", False, 0, 0, MAX_HEAD_DIM),
    ("bidirectional", False, 0, 0, 1),
    ("has_projection", False, 0, 0, 1),
    ("has_cache", False, 0, 0, 1),
    ("has_residual", False, 0, 0, 1),
    ("has_head_outputs", False, 0, 0, 1),
    ("hidden_size", False, 0, 0, MAX_HIDDEN_SIZE),
    ("has_value_norms_l1", False, 0, 0, 1),
)
FLOAT_COLUMNS = (("softmax_scale", True, 0.0), ("soft_cap", False, 0.0), ("rope_theta", False, 0.0), ("rope_attention_factor", False, 1.0))

# Capture points, in the order of `headscope capture --record`, and the fact of a layer that has one.
POINTS = {
    "pre-rope": "has_pre_rope", "value-norms": "has_value_norms", "hidden-norms": "has_hidden_norms", "projection": "has_projection", "cache": "has_cache",
    "residual": "has_residual", "head-outputs": "has_head_outputs", "value-norms-l1": "has_value_norms_l1",
}  # fmt: skip


@dataclasses.dataclass
class LayerFacts:
    """Everything that may differ from layer to layer, of one recorded layer; docs/trace_format.md, "/layers"."""

    num_qo_heads: int = 0
    num_kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int = 0
    qo_heads: tuple = ()  # recorded query heads, rising
    kv_heads: tuple = ()  # recorded KV heads: all that the recorded query heads read
    softmax_scale: float = 0.0
    soft_cap: float = 0.0
    window: int = 0
    chunk: int = 0
    rope_convention: int = 1
    rope_dims: int = 0
    rope_first_dim: int = 0
    rope_theta: float = 0.0
    rope_attention_factor: float = 1.0
    norm: int = 0
    output_gate: int = 0
    v_is_k: int = 0
    kv_layer: int = -1
    selection_layer: int = -1
    has_pre_rope: int = 0
    has_value_norms: int = 0
    has_hidden_norms: int = 0
    selection_sets: int = 0
    selection_ids: int = 0
    selection_block: int = 1
    index_heads: int = 0
    index_kv_heads: int = 0
    index_dim: int = 0
    bidirectional: int = 0
    has_projection: int = 0
    has_cache: int = 0
    has_residual: int = 0
    has_head_outputs: int = 0
    hidden_size: int = 0
    has_value_norms_l1: int = 0
    sinks: np.ndarray | None = None  # float32 [num_qo_heads]

    def group_size(self):
        return self.num_qo_heads // self.num_kv_heads

    def kind(self):
        return SLIDING if self.window > 0 else CHUNKED if self.chunk > 0 else ATTENTION

    def first_seen(self, position):
        """First position that a row at `position` sees; takes arrays too."""
        if self.chunk > 0:
            return position - position % self.chunk
        return np.maximum(0, position - self.window + 1) if self.window > 0 else np.zeros_like(position)


@dataclasses.dataclass
class Layout:
    """Fixed before the first token is written."""

    name: str
    model_type: str
    config_json: str
    num_layers: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    layers: list  # the model's numbers of the recorded layers, rising
    facts: list  # a LayerFacts for each of them
    weights_sha256: str = ""
    tokenizer_sha256: str = ""
    layer_kinds: list = dataclasses.field(default_factory=list)
    encoding: str = "bfloat16"
    capture_point: str = "post-rope"
    row_selection: str = "all"
    prompt_source: str = ""
    task_answer: str = ""
    max_tokens: int = MAX_TOKENS
    has_roles: bool = False
    position_axes: int = 0
    # Layers whose rows also attend to another sequence, of `source_tokens` positions: their numbers, and a LayerFacts for each of them.
    cross_layers: list = dataclasses.field(default_factory=list)
    cross_facts: list = dataclasses.field(default_factory=list)
    source_tokens: int = 0

    def version(self):
        return BIDIRECTIONAL_VERSION if any(facts.bidirectional for facts in self.facts) else FORMAT_VERSION


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    name: str
    head_axis: str
    unit: str
    of_rows: bool
    # Both of a LayerFacts: heads, and components of a vector (None: scalars).
    heads: object
    width: object
    kind: str  # encoding, float32 or int32
    stored: object  # whether a layer has it, links to other layers apart


TENSORS = {
    spec.name: spec
    for spec in (
        TensorSpec("q", "qo_head", "1", True, lambda f: len(f.qo_heads), lambda f: f.head_dim, "encoding", lambda f: True),
        TensorSpec("k", "kv_head", "1", False, lambda f: len(f.kv_heads), lambda f: f.head_dim, "encoding", lambda f: True),
        TensorSpec("v", "kv_head", "1", False, lambda f: len(f.kv_heads), lambda f: f.v_head_dim, "encoding", lambda f: not f.v_is_k),
        TensorSpec("lse", "qo_head", "nat", True, lambda f: len(f.qo_heads), None, "float32", lambda f: True),
        TensorSpec("q_pre_rope", "qo_head", "1", True, lambda f: len(f.qo_heads), lambda f: f.head_dim, "encoding", lambda f: f.has_pre_rope),
        TensorSpec("k_pre_rope", "kv_head", "1", False, lambda f: len(f.kv_heads), lambda f: f.head_dim, "encoding", lambda f: f.has_pre_rope),
        TensorSpec("value_norms", "qo_head", "1", False, lambda f: len(f.qo_heads), None, "float32", lambda f: f.has_value_norms),
        TensorSpec("hidden_norms", "hidden", "1", False, lambda f: 1, None, "float32", lambda f: f.has_hidden_norms),
        TensorSpec("selection", "set", "block", True, lambda f: f.selection_sets, lambda f: f.selection_ids, "int32", lambda f: f.selection_sets > 0),
        TensorSpec("index_q", "index_head", "1", True, lambda f: f.index_heads, lambda f: f.index_dim, "encoding", lambda f: f.index_heads > 0),
        TensorSpec("index_k", "index_kv_head", "1", False, lambda f: f.index_kv_heads, lambda f: f.index_dim, "encoding", lambda f: f.index_heads > 0),
        TensorSpec("index_weights", "index_head", "1", True, lambda f: f.index_heads, None, "float32", lambda f: f.index_heads > 0),
        TensorSpec("q_projection", "qo_head", "1", True, lambda f: len(f.qo_heads), lambda f: f.head_dim, "encoding", lambda f: f.has_projection),
        TensorSpec("k_projection", "kv_head", "1", False, lambda f: len(f.kv_heads), lambda f: f.head_dim, "encoding", lambda f: f.has_projection),
        TensorSpec("cache_k", "kv_head", "1", False, lambda f: len(f.kv_heads), lambda f: f.head_dim, "encoding", lambda f: f.has_cache),
        TensorSpec("cache_v", "kv_head", "1", False, lambda f: len(f.kv_heads), lambda f: f.v_head_dim, "encoding", lambda f: f.has_cache),
        TensorSpec("residual", "hidden", "1", False, lambda f: 1, lambda f: f.hidden_size, "encoding", lambda f: f.has_residual),
        TensorSpec("head_output", "qo_head", "1", True, lambda f: len(f.qo_heads), lambda f: f.v_head_dim, "encoding", lambda f: f.has_head_outputs),
        TensorSpec("value_norms_l1", "qo_head", "1", False, lambda f: len(f.qo_heads), None, "float32", lambda f: f.has_value_norms_l1),
    )
}


def component_bytes(spec, encoding):
    return ENCODING_BYTES[encoding] if spec.kind == "encoding" else 4


def chunk_items(item_bytes, num_items):
    """Tokens or rows of a chunk: as few chunks of at most CHUNK_BYTES as hold the expected items, all of one length."""
    most, items = max(1, CHUNK_BYTES // item_bytes), max(1, num_items)
    num_chunks = -(-items // most)
    return -(-items // num_chunks)


def key_source(layout, slot):
    """The recorded layer whose k a layer reads: its own slot, or that of kv_layer where the trace holds the same heads of it."""
    facts = layout.facts[slot]
    if facts.kv_layer < 0 or facts.kv_layer not in layout.layers:
        return slot
    source = layout.layers.index(facts.kv_layer)
    other = layout.facts[source]
    same = all(getattr(other, name) == getattr(facts, name) for name in ("kv_heads", "head_dim", "v_head_dim", "v_is_k")) and other.kv_layer < 0
    return source if same else slot


def stores(layout, slot, name):
    """Whether the file has this tensor of that layer by itself."""
    if name in ("k", "v") and key_source(layout, slot) != slot:
        return False
    return bool(TENSORS[name].stored(layout.facts[slot]))


def _shape_key(layout, slot):
    facts = layout.facts[slot]
    shapes = tuple((spec.heads(facts), spec.width(facts) if spec.width else 1) if stores(layout, slot, name) else None for name, spec in TENSORS.items())
    return tuple(facts.qo_heads), tuple(facts.kv_heads), shapes


def parts_of(layout):
    """Slots of layers whose datasets are one, in the order of their first layers."""
    parts = {}
    for slot in range(len(layout.layers)):
        parts.setdefault(_shape_key(layout, slot), []).append(slot)
    return list(parts.values())


def lse_keys(facts, positions, num_tokens):
    """How many keys the log-sum-exp of the rows at `positions` counts, int64; num_tokens: of the whole sequence."""
    positions = np.asarray(positions, np.int64)
    if facts.bidirectional:
        return np.full(positions.shape, num_tokens, np.int64)
    return positions + 1 - facts.first_seen(positions)


def _outside(field, value, low, high):
    return "" if low <= value <= high else f"{field} {value}: must be {low} to {high}"


def _bad_numbers(field, numbers, limit):
    if len(numbers) == 0:
        return f"{field} is empty: record at least one"
    for i, number in enumerate(numbers):
        if problem := _outside(f"{field}[{i}]", number, 0, limit - 1):
            return problem
        if i and number <= numbers[i - 1]:
            return f"{field} {number} after {numbers[i - 1]}: must rise without repeats"
    return ""


def _layer_problem(layout, slot):
    facts = layout.facts[slot]
    for name, _, _, least, most in INTEGER_COLUMNS:
        if problem := _outside(name, getattr(facts, name), least, most):
            return problem
    for name, required, _ in FLOAT_COLUMNS:
        value = getattr(facts, name)
        if not math.isfinite(value) or value < 0 or (value == 0 and (required or name == "rope_attention_factor")):
            return f"{name} {value}: must be finite and positive"
    if facts.num_qo_heads % facts.num_kv_heads:
        return f"num_qo_heads {facts.num_qo_heads}: must be a multiple of num_kv_heads {facts.num_kv_heads}"
    if problem := _bad_numbers("qo_heads", facts.qo_heads, facts.num_qo_heads) or _bad_numbers("kv_heads", facts.kv_heads, facts.num_kv_heads):
        return problem
    if lacking := {head // facts.group_size() for head in facts.qo_heads} - set(facts.kv_heads):
        return f"kv_heads lacks {min(lacking)}, which a recorded query head reads: record it"
    if facts.window and facts.chunk:
        return f"chunk {facts.chunk}: must be 0 in a layer with a window"
    if facts.bidirectional and (facts.window or facts.chunk):
        return "bidirectional 1: must be 0 in a layer with a window or a chunk"
    if facts.rope_first_dim + facts.rope_dims > facts.head_dim:
        return f"rope_dims {facts.rope_dims} from rope_first_dim {facts.rope_first_dim}: must lie in head_dim {facts.head_dim}"
    if facts.v_is_k and facts.v_head_dim > facts.head_dim:
        return f"v_head_dim {facts.v_head_dim}: must be at most head_dim {facts.head_dim} where v is k"
    if facts.has_residual != (facts.hidden_size > 0):
        return f"hidden_size {facts.hidden_size}: must be positive where hidden states are stored (has_residual), and 0 elsewhere"
    if facts.sinks is not None and (len(facts.sinks) != facts.num_qo_heads or not np.isfinite(facts.sinks).all()):
        return f"sinks has {len(facts.sinks)} entries: one finite number for each of num_qo_heads {facts.num_qo_heads}"
    return ""


def layout_problem(layout):
    """What is inconsistent in a layout, as "<field> <value>: <what is allowed>"; empty when nothing is."""
    for problem in (
        _outside("num_layers", layout.num_layers, 1, MAX_LAYERS),
        _outside("num_qo_heads", layout.num_qo_heads, 1, MAX_HEADS),
        _outside("num_kv_heads", layout.num_kv_heads, 1, max(1, layout.num_qo_heads)),
        _outside("head_dim", layout.head_dim, 1, MAX_HEAD_DIM),
        _outside("max_tokens", layout.max_tokens, 1, MAX_TOKENS),
        _outside("position_axes", layout.position_axes, 0, 3),
        _bad_numbers("layers", layout.layers, layout.num_layers),
    ):
        if problem:
            return problem
    if layout.encoding not in ENCODING_BYTES:
        return f"encoding {layout.encoding}: must be one of {', '.join(ENCODING_BYTES)}"
    texts = ("name", "model_type", "weights_sha256", "tokenizer_sha256", "capture_point", "row_selection", "prompt_source", "task_answer", "config_json")
    for field in texts:
        text, limit = getattr(layout, field).encode(), MAX_CONFIG_BYTES if field == "config_json" else MAX_ATTRIBUTE_TEXT
        if len(text) > limit or b"\0" in text:
            return f"{field} has {len(text)} bytes: at most {limit} fit a trace, and none of them may be zero"
    for slot, layer in enumerate(layout.layers):
        if problem := _layer_problem(layout, slot):
            return f"layer {layer}: {problem}"
        if layout.layer_kinds and layout.layer_kinds[layer] != layout.facts[slot].kind():
            return f"layer_kinds says {layout.layer_kinds[layer]} of recorded layer {layer}, whose window and chunk make it {layout.facts[slot].kind()}: must be the same"
    return ""
