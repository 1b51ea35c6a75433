// SPDX-License-Identifier: Apache-2.0
#include "model/model_config.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "model/input_file.h"
#include "network/architecture.h"

namespace headscope::model {
namespace {

// Far above any real model, low enough that no product of two of them leaves 64 bits.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 65536;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxSize = 1 << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 31;
constexpr int64_t kMaxConfigBytes = 16 << 20;

std::string KnownModelTypes() {
  std::string names;
  for (const ArchitectureRow& row : Architectures()) names += (names.empty() ? "" : ", ") + std::string(row.model_type);
  return names;
}

// A window of that length, or 0 where it could never hide a token: a trace counts tokens in 31 bits.
int32_t WindowOf(const JsonFields& root, std::optional<int64_t> absent) {
  const int64_t window = root.Integer("sliding_window", 1, INT64_MAX, absent);
  return window > INT32_MAX ? 0 : static_cast<int32_t>(window);
}

// Which layers have a window; the defaults of absent keys are the families' own.
std::vector<int32_t> ReadWindows(const JsonFields& root, WindowRule rule, int32_t num_layers) {
  constexpr int64_t kAbsentWindow = 4096;
  constexpr int64_t kAbsentFullLayers = 28;
  std::vector<int32_t> windows(static_cast<size_t>(num_layers), 0);
  // sliding_window: null means none, and an absent key 4096.
  const bool on = rule == WindowRule::kBySlidingWindow
                      ? !root.IsNull("sliding_window")
                      : rule == WindowRule::kByUseSlidingWindow && root.Boolean("use_sliding_window", false) &&
                            !root.IsNull("sliding_window");
  const int32_t window = on ? WindowOf(root, kAbsentWindow) : 0;
  const std::optional<JsonValue> types = root.Find("layer_types");
  if (types) {
    const JsonValue list = root.Array("layer_types");
    if (list.size() != windows.size()) {
      root.RefuseField("layer_types", "has " + std::to_string(list.size()) + " entries",
                       "it must have one for each of the " + std::to_string(num_layers) + " layers");
    }
    size_t layer = 0;
    list.ForEachElement([&](const JsonValue& type) {
      const bool slides = type.IsString() && type.Text() == "sliding_attention";
      if (!slides && !(type.IsString() && type.Text() == "full_attention")) {
        root.RefuseField("layer_types", type.Shortened() + " is not supported",
                         "full_attention and sliding_attention are");
      }
      if (slides && (rule != WindowRule::kByUseSlidingWindow || !on)) {
        root.RefuseField("layer_types", "names sliding_attention where this model has no window",
                         rule == WindowRule::kByUseSlidingWindow ? "set use_sliding_window and sliding_window"
                                                                 : "use a model with one kind of layer");
      }
      windows[layer++] = slides ? window : 0;
    });
    if (rule == WindowRule::kByUseSlidingWindow) return windows;
  }
  const auto first = static_cast<size_t>(rule == WindowRule::kByUseSlidingWindow
                                             ? root.Integer("max_window_layers", 0, kMaxLayers, kAbsentFullLayers)
                                             : 0);
  for (size_t layer = first; layer < windows.size(); ++layer) windows[layer] = window;
  return windows;
}

bool HasBias(BiasRule rule, bool attention_bias) {
  return rule == BiasRule::kAlways || (rule == BiasRule::kByAttentionBias && attention_bias);
}

}  // namespace

ModelConfig ParseModelConfig(std::string_view text, const std::string& file) {
  // Thousands of values are plenty, also with the factors and layers of the longest models.
  const JsonTree json(text, file, {.max_nodes = 1 << 20});
  const JsonFields root(json.Root(), file, "");
  ModelConfig config;
  config.json = std::string(text);
  config.model_type = root.Text("model_type");
  config.architecture = FindArchitecture(config.model_type);
  if (config.architecture == nullptr) {
    root.RefuseField("model_type", Quoted(config.model_type) + " is not supported", "these are: " + KnownModelTypes());
  }
  const ArchitectureRow& row = *config.architecture;
  if (root.Has("quantization_config")) {
    root.RefuseField("quantization_config", "quantised weights are not supported",
                     "use the model's fp32, fp16 or bf16 checkpoint");
  }
  const auto size = [&](std::string_view key, int64_t most) {
    return static_cast<int32_t>(root.Integer(key, 1, most));
  };
  config.hidden_size = size("hidden_size", kMaxSize);
  config.intermediate_size = size("intermediate_size", kMaxSize);
  config.vocabulary_size = size("vocab_size", kMaxSize);
  config.num_layers = size("num_hidden_layers", kMaxLayers);
  config.num_qo_heads = size("num_attention_heads", kMaxHeads);
  const int64_t absent_kv = row.absent_num_kv_heads > 0 ? row.absent_num_kv_heads : config.num_qo_heads;
  config.num_kv_heads = static_cast<int32_t>(root.Integer("num_key_value_heads", 1, kMaxHeads, absent_kv));
  if (config.num_qo_heads % config.num_kv_heads != 0) {
    root.RefuseField("num_key_value_heads",
                     std::to_string(config.num_kv_heads) + " does not divide num_attention_heads " +
                         std::to_string(config.num_qo_heads),
                     "correct one of the two");
  }
  if (!root.Has("head_dim") && row.absent_head_dim == 0 && config.hidden_size % config.num_qo_heads != 0) {
    root.RefuseField("head_dim", "is absent, and num_attention_heads does not divide hidden_size", "add it");
  }
  const int64_t absent_dim = row.absent_head_dim > 0 ? row.absent_head_dim : config.hidden_size / config.num_qo_heads;
  config.head_dim = static_cast<int32_t>(root.Integer("head_dim", 2, kMaxHeadDim, absent_dim));
  if (config.head_dim < 2 || config.head_dim % 2 != 0) {
    root.RefuseField("head_dim", std::to_string(config.head_dim) + " is not even",
                     "rotary positions turn pairs of components");
  }
  config.max_positions_given = root.Has("max_position_embeddings");
  config.max_positions = root.Integer("max_position_embeddings", 1, kMaxPositions, row.absent_max_positions);
  config.rms_norm_eps = root.Number("rms_norm_eps", 1e-6);
  if (!(config.rms_norm_eps > 0)) root.RefuseField("rms_norm_eps", "must be positive", "correct it");
  const std::string activation = root.Text("hidden_act", "silu");
  if (activation != "silu") root.RefuseField("hidden_act", Quoted(activation) + " is not supported", "silu is");
  config.tied_embeddings = root.Boolean("tie_word_embeddings", false);
  const bool attention_bias = root.Boolean("attention_bias", false);
  config.qkv_bias = HasBias(row.qkv_bias, attention_bias);
  config.output_bias = HasBias(row.output_bias, attention_bias);
  config.mlp_bias = row.has_mlp_bias && root.Boolean("mlp_bias", false);
  config.qk_norm = row.qk_norm;
  for (const int32_t window : ReadWindows(root, row.window, config.num_layers)) {
    config.layers.push_back({.num_qo_heads = config.num_qo_heads,
                             .num_kv_heads = config.num_kv_heads,
                             .head_dim = config.head_dim,
                             .v_head_dim = config.head_dim,
                             .scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim)),
                             .window = window});
  }
  config.rope = ReadRopeConfig(root, config.head_dim, config.max_positions);
  if (config.rope.type == RopeType::kDynamic) {
    // Such a model runs past the length that it names: that is where its positions begin to grow.
    const double reach = static_cast<double>(config.max_positions) * config.rope.factor;
    config.max_positions = reach < static_cast<double>(kMaxPositions) ? static_cast<int64_t>(reach) : kMaxPositions;
  }
  return config;
}

ModelConfig ReadModelConfig(const std::string& model_dir) {
  const std::string path = (std::filesystem::path(model_dir) / "config.json").string();
  return ParseModelConfig(ReadSmallFile(path, kMaxConfigBytes), path);
}

std::string PositionsText(const ModelConfig& config) {
  return std::to_string(config.max_positions) + " positions (" +
         (config.max_positions_given
              ? "max_position_embeddings"
              : "the default of " + config.model_type + ": config.json has no max_position_embeddings") +
         ")";
}

void RequirePositions(const ModelConfig& config, std::string_view what, int64_t count) {
  if (count <= config.max_positions) return;
  throw std::invalid_argument(std::string(what) + " " + std::to_string(count) + ": the model has " +
                              PositionsText(config) + "; choose a smaller number");
}

}  // namespace headscope::model
