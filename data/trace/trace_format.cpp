// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_format.h"

#include <algorithm>
#include <cmath>

#include "data/trace_files.h"
#include "trace/layer_table.h"

namespace headscope::data {
namespace {

std::string BadText(const std::string& field, const std::string& text, size_t limit) {
  if (text.size() > limit) {
    return field + " has " + std::to_string(text.size()) + " bytes: at most " + std::to_string(limit) + " fit a trace";
  }
  // Fixed-length strings are padded with zeros, so a text with zeros would not come back as it was.
  return text.find('\0') == std::string::npos ? "" : field + " contains a zero byte: remove it";
}

// The model's list of kinds and the recorded layers tell the same.
std::string BadKinds(const TraceLayout& layout) {
  const std::vector<LayerKind>& kinds = layout.model.layer_kinds;
  if (kinds.empty()) return "";
  if (kinds.size() != static_cast<size_t>(layout.model.num_layers)) {
    return "layer_kinds has " + std::to_string(kinds.size()) + " entries: one for each of num_layers " +
           std::to_string(layout.model.num_layers);
  }
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    const LayerKind kind = kinds[static_cast<size_t>(layout.layers[slot])];
    if (kind == layout.facts[slot].Kind()) continue;
    return "layer_kinds says " + std::to_string(static_cast<int>(kind)) + " of recorded layer " +
           std::to_string(layout.layers[slot]) + ", whose window and chunk make it " +
           std::to_string(static_cast<int>(layout.facts[slot].Kind())) + ": must be the same";
  }
  return "";
}

}  // namespace

std::string PlaceProblem(const TraceFilePlace& place) {
  if (place.count == 0 && place.number == 0 && place.set.empty()) return "";
  const bool digits =
      place.set.size() == kSetDigits && place.set.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!digits) return "file_set: must be " + std::to_string(kSetDigits) + " hexadecimal digits";
  if (std::string problem = OutsideProblem("file_count", place.count, 2, kMaxTraceFiles); !problem.empty())
    return problem;
  return OutsideProblem("file_number", place.number, 1, place.count);
}

std::string OutsideProblem(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return "";
  return field + " " + std::to_string(value) + ": must be " + std::to_string(low) + " to " + std::to_string(high);
}

std::string BadNumbers(const std::string& field, const std::vector<int32_t>& numbers, int32_t limit) {
  if (numbers.empty()) {
    return field + " is empty: record at least one";
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 0 || numbers[i] >= limit) {
      return OutsideProblem(field + "[" + std::to_string(i) + "]", numbers[i], 0, limit - 1);
    }
    if (i > 0 && numbers[i] <= numbers[i - 1]) {
      return field + " " + std::to_string(numbers[i]) + " after " + std::to_string(numbers[i - 1]) +
             ": must rise without repeats";
    }
  }
  return "";
}

int64_t ChunkItems(int64_t item_bytes, int64_t num_items) {
  const int64_t most = std::max<int64_t>(1, kChunkBytes / item_bytes);
  const int64_t items = std::max<int64_t>(1, num_items);
  const int64_t num_chunks = (items + most - 1) / most;
  return (items + num_chunks - 1) / num_chunks;
}

std::string LayoutProblem(const TraceLayout& layout) {
  const ModelInfo& model = layout.model;
  const std::string problems[] = {
      OutsideProblem("num_layers", model.num_layers, 1, kMaxLayers),
      OutsideProblem("num_qo_heads", model.num_qo_heads, 1, kMaxHeads),
      OutsideProblem("num_kv_heads", model.num_kv_heads, 1, std::max(1, model.num_qo_heads)),
      OutsideProblem("head_dim", model.head_dim, 1, kMaxHeadDim),
      OutsideProblem("max_tokens", layout.max_tokens, 1, kMaxTokens),
      OutsideProblem("first_token", layout.first_token, 0, kMaxTokens),
      OutsideProblem("encoding", static_cast<int64_t>(layout.encoding), 0, 2),
      BadNumbers("layers", layout.layers, model.num_layers),
      OutsideProblem("position_axes", layout.position_axes, 0, kMaxPositionAxes),
      BadText("config_json", model.config_json, kMaxConfigBytes),
      BadText("name", model.name, kMaxAttributeText),
      BadText("model_type", model.model_type, kMaxAttributeText),
      BadText("weights_sha256", model.weights_sha256, kMaxAttributeText),
      BadText("tokenizer_sha256", model.tokenizer_sha256, kMaxAttributeText),
      BadText("capture_point", layout.capture_point, kMaxAttributeText),
      BadText("attention", layout.attention, kMaxAttributeText),
      BadText("row_selection", layout.row_selection, kMaxAttributeText),
      BadText("prompt_source", layout.prompt_source, kMaxAttributeText),
      BadText("task_answer", layout.task_answer, kMaxAttributeText),
      OutsideProblem("answer_tokens", layout.answer_tokens, 0, kMaxTokens),
      PlaceProblem(layout.place),
  };
  for (const std::string& problem : problems) {
    if (!problem.empty()) {
      return problem;
    }
  }
  if (layout.answer_score < 0 || layout.answer_score > 1) return "answer_score: must be 0 to 1, or NaN";
  if (model.num_qo_heads % model.num_kv_heads != 0) {
    return "num_qo_heads " + std::to_string(model.num_qo_heads) + ": must be a multiple of num_kv_heads " +
           std::to_string(model.num_kv_heads);
  }
  if (layout.facts.size() != layout.layers.size()) {
    return "facts has " + std::to_string(layout.facts.size()) + " entries: one for each of the " +
           std::to_string(layout.layers.size()) + " recorded layers";
  }
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    if (std::string problem = LayerProblem(layout, slot); !problem.empty()) return problem;
  }
  return BadKinds(layout);
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
