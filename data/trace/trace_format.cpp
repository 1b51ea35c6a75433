#include "trace/trace_format.h"

#include <algorithm>
#include <cmath>

namespace headscope::data {
namespace {

std::string Outside(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) {
    return "";
  }
  return field + " " + std::to_string(value) + ": must be " + std::to_string(low) + " to " + std::to_string(high);
}

// Numbers of layers or heads: at least one, rising, below `limit`.
std::string BadNumbers(const std::string& field, const std::vector<int32_t>& numbers, int32_t limit) {
  if (numbers.empty()) {
    return field + " is empty: record at least one";
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 0 || numbers[i] >= limit) {
      return Outside(field + "[" + std::to_string(i) + "]", numbers[i], 0, limit - 1);
    }
    if (i > 0 && numbers[i] <= numbers[i - 1]) {
      return field + " " + std::to_string(numbers[i]) + " after " + std::to_string(numbers[i - 1]) +
             ": must rise without repeats";
    }
  }
  return "";
}

std::string BadText(const std::string& field, const std::string& text, size_t limit) {
  if (text.size() > limit) {
    return field + " has " + std::to_string(text.size()) + " bytes: at most " + std::to_string(limit) + " fit a trace";
  }
  // Fixed-length strings are padded with zeros, so a text with zeros would not come back as it was.
  return text.find('\0') == std::string::npos ? "" : field + " contains a zero byte: remove it";
}

std::string BadKvHeads(const TraceLayout& layout) {
  const int32_t group = layout.model.num_qo_heads / layout.model.num_kv_heads;
  for (const int32_t head : layout.qo_heads) {
    if (!std::binary_search(layout.kv_heads.begin(), layout.kv_heads.end(), head / group)) {
      return "kv_heads lacks " + std::to_string(head / group) + ", which query head " + std::to_string(head) +
             " reads: record it";
    }
  }
  return "";
}

}  // namespace

int64_t ChunkItems(int64_t item_bytes, int64_t num_items) {
  const int64_t most = std::max<int64_t>(1, kChunkBytes / item_bytes);
  const int64_t items = std::max<int64_t>(1, num_items);
  const int64_t num_chunks = (items + most - 1) / most;
  return (items + num_chunks - 1) / num_chunks;
}

std::string LayoutProblem(const TraceLayout& layout) {
  const ModelInfo& model = layout.model;
  const std::string problems[] = {
      Outside("num_layers", model.num_layers, 1, kMaxLayers),
      Outside("num_qo_heads", model.num_qo_heads, 1, kMaxHeads),
      Outside("num_kv_heads", model.num_kv_heads, 1, std::max(1, model.num_qo_heads)),
      Outside("head_dim", model.head_dim, 1, kMaxHeadDim),
      Outside("max_tokens", layout.max_tokens, 1, kMaxTokens),
      Outside("first_token", layout.first_token, 0, kMaxTokens),
      Outside("encoding", static_cast<int64_t>(layout.encoding), 0, 2),
      BadNumbers("layers", layout.layers, model.num_layers),
      BadNumbers("qo_heads", layout.qo_heads, model.num_qo_heads),
      BadNumbers("kv_heads", layout.kv_heads, model.num_kv_heads),
      BadText("config_json", model.config_json, kMaxConfigBytes),
      BadText("name", model.name, kMaxAttributeText),
      BadText("model_type", model.model_type, kMaxAttributeText),
      BadText("weights_sha256", model.weights_sha256, kMaxAttributeText),
      BadText("tokenizer_sha256", model.tokenizer_sha256, kMaxAttributeText),
      BadText("capture_point", layout.capture_point, kMaxAttributeText),
      BadText("row_selection", layout.row_selection, kMaxAttributeText),
      BadText("prompt_source", layout.prompt_source, kMaxAttributeText),
      BadText("task_answer", layout.task_answer, kMaxAttributeText),
  };
  for (const std::string& problem : problems) {
    if (!problem.empty()) {
      return problem;
    }
  }
  if (model.num_qo_heads % model.num_kv_heads != 0) {
    return "num_qo_heads " + std::to_string(model.num_qo_heads) + ": must be a multiple of num_kv_heads " +
           std::to_string(model.num_kv_heads);
  }
  if (std::string problem = BadKvHeads(layout); !problem.empty()) {
    return problem;
  }
  if (layout.rope_convention != "half" && layout.rope_convention != "interleaved" && layout.rope_convention != "none") {
    return "rope_convention \"" + layout.rope_convention.substr(0, 64) + "\": must be half, interleaved or none";
  }
  if (!std::isfinite(layout.softmax_scale) || layout.softmax_scale <= 0) {
    return "softmax_scale " + std::to_string(layout.softmax_scale) + ": must be positive";
  }
  if (!std::isfinite(layout.soft_cap) || layout.soft_cap < 0) {
    return "soft_cap " + std::to_string(layout.soft_cap) + ": must be positive, or 0 for none";
  }
  if (layout.window_per_layer.size() != layout.layers.size()) {
    return "window_per_layer has " + std::to_string(layout.window_per_layer.size()) + " entries: one for each of the " +
           std::to_string(layout.layers.size()) + " recorded layers";
  }
  for (const int32_t window : layout.window_per_layer) {
    if (window < 0) {
      return Outside("window_per_layer", window, 0, kMaxTokens);
    }
  }
  return "";
}

int64_t LseKeys(const TraceLayout& layout, size_t layer_slot, int64_t token) {
  const int64_t seen = layout.first_token + token + 1;
  const int32_t window = layout.window_per_layer[layer_slot];
  return window == 0 ? seen : std::min<int64_t>(seen, window);
}

const char* EncodingName(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFloat32:
      return "float32";
    case Encoding::kBFloat16:
      return "bfloat16";
    case Encoding::kFloat16:
      return "float16";
  }
  return "unknown";
}

}  // namespace headscope::data
