// SPDX-License-Identifier: Apache-2.0
#include "trace/layer_table.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

#include "trace/trace_format.h"

namespace headscope::data {
namespace {

constexpr int32_t kMost = INT32_MAX;

// `kReach` gives a reference to the integer, enumeration or boolean of the facts that a column is about.
template <auto kReach>
constexpr LayerIntegerColumn Integers(const char* name, bool required, int32_t usual, int32_t least, int32_t most) {
  return {name,
          required,
          usual,
          least,
          most,
          [](const LayerFacts& facts) { return static_cast<int32_t>(kReach(facts)); },
          [](LayerFacts& facts, int32_t value) {
            kReach(facts) = static_cast<std::remove_reference_t<decltype(kReach(facts))>>(value);
          }};
}
template <auto kReach>
constexpr LayerFloatColumn Floats(const char* name, bool required, float usual, bool zero_allowed) {
  return {name,
          required,
          usual,
          zero_allowed,
          [](const LayerFacts& facts) { return kReach(facts); },
          [](LayerFacts& facts, float value) { kReach(facts) = value; }};
}

// Compiles only while these are all facts: what is new has a column below, or the reader and the writer know it (rope,
// selection, and the lists of heads and sinks). One that they lack would come back from a file as its default.
[[maybe_unused]] void AllFacts(const LayerFacts& facts) {
  [[maybe_unused]] const auto& [num_qo_heads, num_kv_heads, head_dim, v_head_dim, qo_heads, kv_heads, softmax_scale,
                                soft_cap, window, chunk, bidirectional, rope, sinks, norm, output_gate, v_is_k,
                                kv_layer, selection_layer, has_pre_rope, has_value_norms, has_hidden_norms,
                                has_projection, has_cache, has_residual, has_head_outputs, has_value_norms_l1,
                                hidden_size, selection] = facts;
  [[maybe_unused]] const auto& [convention, theta, num_dims, first_dim, attention_factor] = rope;
  [[maybe_unused]] const auto& [sets, ids, block, index_heads, index_kv_heads, index_dim] = selection;
}

// A fact that does not go with another one.
Fault FactFault(const char* field, int64_t value, const std::string& problem) {
  return {.field = field, .value = std::to_string(value), .problem = problem};
}

std::optional<Fault> HeadsFault(const LayerFacts& facts) {
  for (const auto& [field, numbers, limit] : {std::tuple{"qo_heads", &facts.qo_heads, facts.num_qo_heads},
                                              {"kv_heads", &facts.kv_heads, facts.num_kv_heads}}) {
    if (std::optional<Fault> fault = NumbersFault(field, *numbers, limit)) return fault;
  }
  for (const int32_t head : facts.qo_heads) {
    const int32_t kv_head = head / facts.GroupSize();
    if (!std::binary_search(facts.kv_heads.begin(), facts.kv_heads.end(), kv_head)) {
      return Fault{
          .field = "kv_heads",
          .problem = "must name " + std::to_string(kv_head) + ", which query head " + std::to_string(head) + " reads"};
    }
  }
  return std::nullopt;
}

std::optional<Fault> SelectionFault(const SelectionFacts& selection, const LayerFacts& facts) {
  if (selection.sets > 1 && selection.sets != facts.num_kv_heads) {
    return FactFault("selection_sets", selection.sets,
                     "must be 0, 1 or num_kv_heads " + std::to_string(facts.num_kv_heads));
  }
  if ((selection.sets > 0) != (selection.ids > 0)) {
    return FactFault("selection_ids", selection.ids, "must be positive where there are selection_sets, else 0");
  }
  const bool index = selection.index_heads > 0;
  if (index != (selection.index_kv_heads > 0) || index != (selection.index_dim > 0)) {
    return FactFault("index_heads", selection.index_heads,
                     "must be positive or 0 as index_kv_heads " + std::to_string(selection.index_kv_heads) +
                         " and index_dim " + std::to_string(selection.index_dim) + " are");
  }
  if (facts.selection_layer >= 0 && (selection.sets > 0 || index)) {
    return FactFault("selection_layer", facts.selection_layer, "must be -1 in a layer with a selection of its own");
  }
  return std::nullopt;
}

std::optional<Fault> FactsFault(const TraceLayout& layout, size_t slot) {
  const LayerFacts& facts = layout.facts[slot];
  for (const LayerIntegerColumn& column : kLayerIntegers) {
    std::optional<Fault> fault = OutsideFault(column.name, column.get(facts), column.least, column.most);
    if (fault) return fault;
  }
  for (const LayerFloatColumn& column : kLayerFloats) {
    const float value = column.get(facts);
    if (!std::isfinite(value) || value < 0 || (value == 0 && !column.zero_allowed)) {
      return Fault{.field = column.name,
                   .value = std::to_string(value),
                   .problem = column.zero_allowed ? "must be positive, or 0 for none" : "must be positive"};
    }
  }
  if (facts.num_qo_heads % facts.num_kv_heads != 0) {
    return FactFault("num_qo_heads", facts.num_qo_heads,
                     "must be a multiple of num_kv_heads " + std::to_string(facts.num_kv_heads));
  }
  if (std::optional<Fault> fault = HeadsFault(facts)) return fault;
  if (facts.window > 0 && facts.chunk > 0) {
    return FactFault("chunk", facts.chunk, "must be 0 in a layer with a window");
  }
  if (facts.bidirectional && (facts.window > 0 || facts.chunk > 0)) {
    return FactFault("bidirectional", 1, "must be 0 in a layer with a window or a chunk");
  }
  if (facts.rope.first_dim + facts.rope.num_dims > facts.head_dim) {
    return Fault{
        .field = "rope_dims",
        .value = std::to_string(facts.rope.num_dims) + " from rope_first_dim " + std::to_string(facts.rope.first_dim),
        .problem = "must lie in head_dim " + std::to_string(facts.head_dim)};
  }
  if (facts.v_is_k && facts.v_head_dim > facts.head_dim) {
    return FactFault("v_head_dim", facts.v_head_dim,
                     "must be at most head_dim " + std::to_string(facts.head_dim) + " where v is k");
  }
  if (!facts.sinks.empty() && facts.sinks.size() != static_cast<size_t>(facts.num_qo_heads)) {
    return Fault{.field = "sinks",
                 .problem = "has " + std::to_string(facts.sinks.size()) +
                            " entries, and must have one for each of num_qo_heads " +
                            std::to_string(facts.num_qo_heads) + ", or none"};
  }
  for (const float logit : facts.sinks) {
    if (!std::isfinite(logit))
      return Fault{.field = "sinks", .value = std::to_string(logit), .problem = "must be finite"};
  }
  if (facts.has_residual != (facts.hidden_size > 0)) {
    return FactFault("hidden_size", facts.hidden_size,
                     "must be positive where hidden states are stored (has_residual), else 0");
  }
  for (const auto& [field, layer] :
       {std::pair{"kv_layer", facts.kv_layer}, {"selection_layer", facts.selection_layer}}) {
    if (std::optional<Fault> fault = OutsideFault(field, layer, -1, int64_t{layout.layers[slot]} - 1)) return fault;
  }
  return SelectionFault(facts.selection, facts);
}

}  // namespace

// The fact that a column is about, and its name and bounds as Integers and Floats take them.
#define HEADSCOPE_COLUMN(kind, fact, ...) \
  kind < [](auto& facts) -> auto& {       \
    return facts.fact;                    \
  }                                       \
  > (__VA_ARGS__)

// Arrays of as many columns as have a line: one fewer or more than the header says does not compile.
constexpr std::array kIntegerColumns = {
    HEADSCOPE_COLUMN(Integers, num_qo_heads, "num_qo_heads", true, 0, 1, kMaxHeads),
    HEADSCOPE_COLUMN(Integers, num_kv_heads, "num_kv_heads", true, 0, 1, kMaxHeads),
    HEADSCOPE_COLUMN(Integers, head_dim, "head_dim", true, 0, 1, kMaxHeadDim),
    HEADSCOPE_COLUMN(Integers, v_head_dim, "v_head_dim", true, 0, 1, kMaxHeadDim),
    HEADSCOPE_COLUMN(Integers, window, "window", false, 0, 0, kMost),
    HEADSCOPE_COLUMN(Integers, chunk, "chunk", false, 0, 0, kMost),
    HEADSCOPE_COLUMN(Integers, rope.convention, "rope_convention", false, 1, 0, 2),
    HEADSCOPE_COLUMN(Integers, rope.num_dims, "rope_dims", false, 0, 0, kMaxHeadDim),
    HEADSCOPE_COLUMN(Integers, rope.first_dim, "rope_first_dim", false, 0, 0, kMaxHeadDim),
    HEADSCOPE_COLUMN(Integers, norm, "norm", false, 0, 0, 5),
    HEADSCOPE_COLUMN(Integers, output_gate, "output_gate", false, 0, 0, 2),
    HEADSCOPE_COLUMN(Integers, v_is_k, "v_is_k", false, 0, 0, 1),
    HEADSCOPE_COLUMN(Integers, kv_layer, "kv_layer", false, -1, -1, kMaxLayers - 1),
    HEADSCOPE_COLUMN(Integers, selection_layer, "selection_layer", false, -1, -1, kMaxLayers - 1),
    HEADSCOPE_COLUMN(Integers, has_pre_rope, "has_pre_rope", false, 0, 0, 1),
    HEADSCOPE_COLUMN(Integers, has_value_norms, "has_value_norms", false, 0, 0, 1),
    HEADSCOPE_COLUMN(Integers, has_hidden_norms, "has_hidden_norms", false, 0, 0, 1),
    HEADSCOPE_COLUMN(Integers, selection.sets, "selection_sets", false, 0, 0, kMaxHeads),
    HEADSCOPE_COLUMN(Integers, selection.ids, "selection_ids", false, 0, 0, kMaxSelectedIds),
    HEADSCOPE_COLUMN(Integers, selection.block, "selection_block", false, 1, 1, kMost),
    HEADSCOPE_COLUMN(Integers, selection.index_heads, "index_heads", false, 0, 0, kMaxHeads),
    HEADSCOPE_COLUMN(Integers, selection.index_kv_heads, "index_kv_heads", false, 0, 0, kMaxHeads),
    HEADSCOPE_COLUMN(Integers, selection.index_dim, "index_dim", false, 0, 0, kMaxHeadDim),
    HEADSCOPE_COLUMN(Integers, bidirectional, "bidirectional", false, 0, 0, 1),
    HEADSCOPE_COLUMN(Integers, has_projection, "has_projection", false, 0, 0, 1),
    HEADSCOPE_COLUMN(Integers, has_cache, "has_cache", false, 0, 0, 1),
    HEADSCOPE_COLUMN(Integers, has_residual, "has_residual", false, 0, 0, 1),
    HEADSCOPE_COLUMN(Integers, has_head_outputs, "has_head_outputs", false, 0, 0, 1),
    HEADSCOPE_COLUMN(Integers, hidden_size, "hidden_size", false, 0, 0, kMaxHiddenSize),
    HEADSCOPE_COLUMN(Integers, has_value_norms_l1, "has_value_norms_l1", false, 0, 0, 1),
};
constexpr std::array kFloatColumns = {
    HEADSCOPE_COLUMN(Floats, softmax_scale, "softmax_scale", true, 0, false),
    HEADSCOPE_COLUMN(Floats, soft_cap, "soft_cap", false, 0, true),
    HEADSCOPE_COLUMN(Floats, rope.theta, "rope_theta", false, 0, true),
    HEADSCOPE_COLUMN(Floats, rope.attention_factor, "rope_attention_factor", false, 1, false),
};
#undef HEADSCOPE_COLUMN
const std::array<LayerIntegerColumn, 30> kLayerIntegers = kIntegerColumns;
const std::array<LayerFloatColumn, 4> kLayerFloats = kFloatColumns;

std::optional<Fault> LayerFault(const TraceLayout& layout, size_t slot) {
  std::optional<Fault> fault = FactsFault(layout, slot);
  if (fault) fault->field = "layer " + std::to_string(layout.layers[slot]) + ", " + fault->field;
  return fault;
}

}  // namespace headscope::data
