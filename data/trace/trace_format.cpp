// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_format.h"

#include <algorithm>
#include <cmath>

#include "data/trace_files.h"
#include "trace/layer_table.h"

namespace headscope::data {
namespace {

std::optional<Fault> TextFault(const std::string& field, const std::string& text, size_t limit) {
  if (text.size() > limit)
    return Fault{.field = field,
                 .problem = "has " + std::to_string(text.size()) + " bytes, and at most " + std::to_string(limit) +
                            " fit a trace"};
  // Fixed-length strings are padded with zeros, so a text with zeros would not come back as it was.
  if (text.find('\0') == std::string::npos) return std::nullopt;
  return Fault{.field = field, .problem = "contains a zero byte, which a trace cannot hold"};
}

// The model's list of kinds and the recorded layers tell the same.
std::optional<Fault> KindsFault(const TraceLayout& layout) {
  const std::vector<LayerKind>& kinds = layout.model.layer_kinds;
  if (kinds.empty()) return std::nullopt;
  if (kinds.size() != static_cast<size_t>(layout.model.num_layers)) {
    return Fault{.field = "layer_kinds",
                 .problem = "has " + std::to_string(kinds.size()) +
                            " entries, and must have one for each of num_layers " +
                            std::to_string(layout.model.num_layers)};
  }
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    const LayerKind kind = kinds[static_cast<size_t>(layout.layers[slot])];
    if (kind == layout.facts[slot].Kind()) continue;
    return Fault{.field = "layer_kinds",
                 .problem = "says " + std::to_string(static_cast<int>(kind)) + " of recorded layer " +
                            std::to_string(layout.layers[slot]) + ", and must say what its window and chunk make it, " +
                            std::to_string(static_cast<int>(layout.facts[slot].Kind()))};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Fault> PlaceFault(const TraceFilePlace& place) {
  if (place.count == 0 && place.number == 0 && place.set.empty()) return std::nullopt;
  const bool digits =
      place.set.size() == kSetDigits && place.set.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!digits)
    return Fault{.field = "file_set", .problem = "must be " + std::to_string(kSetDigits) + " hexadecimal digits"};
  if (std::optional<Fault> fault = OutsideFault("file_count", place.count, 2, kMaxTraceFiles)) return fault;
  return OutsideFault("file_number", place.number, 1, place.count);
}

std::optional<Fault> OutsideFault(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return Fault{.field = field,
               .value = std::to_string(value),
               .problem = "must be " + std::to_string(low) + " to " + std::to_string(high)};
}

std::optional<Fault> NumbersFault(const std::string& field, const std::vector<int32_t>& numbers, int32_t limit) {
  if (numbers.empty()) return Fault{.field = field, .problem = "is empty, and must name at least one"};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::string element = field + "[" + std::to_string(i) + "]";
    if (std::optional<Fault> fault = OutsideFault(element, numbers[i], 0, limit - 1)) return fault;
    if (i > 0 && numbers[i] <= numbers[i - 1]) {
      return Fault{.field = field,
                   .value = std::to_string(numbers[i]) + " after " + std::to_string(numbers[i - 1]),
                   .problem = "must rise without repeats"};
    }
  }
  return std::nullopt;
}

int64_t ChunkItems(int64_t item_bytes, int64_t num_items) {
  const int64_t most = std::max<int64_t>(1, kChunkBytes / item_bytes);
  const int64_t items = std::max<int64_t>(1, num_items);
  const int64_t num_chunks = (items + most - 1) / most;
  return (items + num_chunks - 1) / num_chunks;
}

std::optional<Fault> LayoutFault(const TraceLayout& layout) {
  const ModelInfo& model = layout.model;
  const std::optional<Fault> faults[] = {
      OutsideFault("num_layers", model.num_layers, 1, kMaxLayers),
      OutsideFault("num_qo_heads", model.num_qo_heads, 1, kMaxHeads),
      OutsideFault("num_kv_heads", model.num_kv_heads, 1, std::max(1, model.num_qo_heads)),
      OutsideFault("head_dim", model.head_dim, 1, kMaxHeadDim),
      OutsideFault("max_tokens", layout.max_tokens, 1, kMaxTokens),
      OutsideFault("first_token", layout.first_token, 0, kMaxTokens),
      OutsideFault("encoding", static_cast<int64_t>(layout.encoding), 0, 2),
      NumbersFault("layers", layout.layers, model.num_layers),
      OutsideFault("position_axes", layout.position_axes, 0, kMaxPositionAxes),
      TextFault("config_json", model.config_json, kMaxConfigBytes),
      TextFault("name", model.name, kMaxAttributeText),
      TextFault("model_type", model.model_type, kMaxAttributeText),
      TextFault("weights_sha256", model.weights_sha256, kMaxAttributeText),
      TextFault("tokenizer_sha256", model.tokenizer_sha256, kMaxAttributeText),
      TextFault("capture_point", layout.capture_point, kMaxAttributeText),
      TextFault("attention", layout.attention, kMaxAttributeText),
      TextFault("row_selection", layout.row_selection, kMaxAttributeText),
      TextFault("prompt_source", layout.prompt_source, kMaxAttributeText),
      TextFault("task_answer", layout.task_answer, kMaxAttributeText),
      OutsideFault("answer_tokens", layout.answer_tokens, 0, kMaxTokens),
      PlaceFault(layout.place),
  };
  for (const std::optional<Fault>& fault : faults) {
    if (fault) return fault;
  }
  if (layout.answer_score < 0 || layout.answer_score > 1)
    return Fault{.field = "answer_score", .problem = "must be 0 to 1, or NaN"};
  if (model.num_qo_heads % model.num_kv_heads != 0) {
    return Fault{.field = "num_qo_heads",
                 .value = std::to_string(model.num_qo_heads),
                 .problem = "must be a multiple of num_kv_heads " + std::to_string(model.num_kv_heads)};
  }
  if (layout.facts.size() != layout.layers.size()) {
    return Fault{.field = "facts",
                 .problem = "has " + std::to_string(layout.facts.size()) +
                            " entries, and must have one for each of the " + std::to_string(layout.layers.size()) +
                            " recorded layers"};
  }
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    if (std::optional<Fault> fault = LayerFault(layout, slot)) return fault;
  }
  return KindsFault(layout);
}

void RequireLayout(const TraceLayout& layout, const std::string& path) {
  std::optional<Fault> fault = LayoutFault(layout);
  if (!fault) return;
  fault->file = path;
  throw FailedError(*std::move(fault));
}

LayerFacts UsualFacts(const ModelInfo& model) {
  LayerFacts facts;
  facts.num_qo_heads = model.num_qo_heads;
  facts.num_kv_heads = model.num_kv_heads;
  facts.head_dim = facts.v_head_dim = model.head_dim;
  for (int32_t head = 0; head < model.num_qo_heads; ++head) facts.qo_heads.push_back(head);
  for (int32_t head = 0; head < model.num_kv_heads; ++head) facts.kv_heads.push_back(head);
  facts.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(model.head_dim)));
  return facts;
}

int32_t VersionOf(const TraceLayout& layout) {
  return std::ranges::any_of(layout.facts, &LayerFacts::bidirectional) ? kBidirectionalVersion : kFormatVersion;
}

int64_t LseKeys(const TraceLayout& layout, size_t layer_slot, int64_t token) {
  if (layout.facts[layer_slot].bidirectional) return layout.max_tokens;
  const int64_t position = layout.first_token + token;
  return position + 1 - layout.facts[layer_slot].FirstSeen(position);
}

const char* EncodingName(ElementType encoding) {
  switch (encoding) {
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kBFloat16:
      return "bfloat16";
    case ElementType::kFloat16:
      return "float16";
  }
  return "unknown";
}

}  // namespace headscope::data
