#include "checkpoint/model_config.h"

#include <filesystem>
#include <stdexcept>

#include "checkpoint/input_file.h"
#include "checkpoint/strict_json.h"
#include "model/architecture.h"

namespace headscope::capture {
namespace {

// Far above any real model, low enough that no product of two of them leaves 64 bits.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 65536;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxSize = 1 << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 31;
constexpr int64_t kMaxConfigBytes = 16 << 20;
constexpr std::string_view kOtherModel = "use a model without it";

std::string KnownModelTypes() {
  std::string names;
  for (const ArchitectureRow& row : Architectures()) names += (names.empty() ? "" : ", ") + std::string(row.model_type);
  return names;
}

void RefuseWindow(const JsonFields& root, WindowRule rule) {
  if (const nlohmann::json* layer_types = root.Find("layer_types")) {
    for (const nlohmann::json& type : *layer_types) {
      if (!type.is_string() || type.get_ref<const std::string&>() != "full_attention")
        root.RefuseField("layer_types", type.dump(-1, ' ', true).substr(0, 60) + " is not supported",
                         "use a model with full attention in every layer");
    }
  }
  switch (rule) {
    case WindowRule::kNone:
      return;
    case WindowRule::kBySlidingWindow:
      // Find cannot tell null from absent, and here they differ: the family's default is a window of 4096.
      if (!root.IsNull("sliding_window")) {
        root.RefuseField("sliding_window",
                         root.Has("sliding_window") ? "a sliding window is not supported"
                                                    : "an absent field means a window of 4096, which is not supported",
                         "use a model where it is null");
      }
      return;
    case WindowRule::kByUseSlidingWindow:
      if (root.Boolean("use_sliding_window", false))
        root.RefuseField("use_sliding_window", "a sliding window is not supported", kOtherModel);
      return;
  }
}

// The scaling stands in rope_scaling (older files, beside a top-level rope_theta) or in rope_parameters (newer ones,
// theta inside).
RopeConfig ReadRope(const JsonFields& root, int64_t max_positions) {
  RopeConfig rope;
  rope.theta = root.Number("rope_theta", 10000.0);
  const char* key = root.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (root.Has("rope_parameters") && root.Has("rope_scaling")) {
    root.RefuseField("rope_scaling", "stands beside rope_parameters, and only one of them can hold",
                     "remove one of the two");
  }
  if (root.Has(key)) {
    const JsonFields fields = root.Object(key);
    rope.theta = fields.Number("rope_theta", rope.theta);
    const char* type_key = fields.Has("rope_type") ? "rope_type" : "type";
    const std::string type = fields.Text(type_key, "default");
    if (type == "linear" || type == "llama3") {
      rope.type = type == "linear" ? RopeType::kLinear : RopeType::kLlama3;
      rope.factor = fields.Number("factor");
      if (!(rope.factor >= 1)) fields.RefuseField("factor", "is below 1", "it must be at least 1");
    } else if (type != "default") {
      fields.RefuseField(type_key, "\"" + type.substr(0, 40) + "\" is not supported", "default, linear and llama3 are");
    }
    if (rope.type == RopeType::kLlama3) {
      rope.low_freq_factor = fields.Number("low_freq_factor");
      rope.high_freq_factor = fields.Number("high_freq_factor");
      if (!(rope.low_freq_factor > 0) || !(rope.high_freq_factor > rope.low_freq_factor)) {
        fields.RefuseField("high_freq_factor", "must be larger than low_freq_factor, and both positive",
                           "correct the two");
      }
      const JsonFields& holder = root.Has("original_max_position_embeddings") ? root : fields;
      rope.original_max_positions = holder.Integer("original_max_position_embeddings", 1, kMaxPositions, max_positions);
    }
    if (fields.Number("partial_rotary_factor", 1.0) != 1.0) {
      fields.RefuseField("partial_rotary_factor", "rotating only a part of head_dim is not supported", kOtherModel);
    }
  }
  if (root.Number("partial_rotary_factor", 1.0) != 1.0) {
    root.RefuseField("partial_rotary_factor", "rotating only a part of head_dim is not supported", kOtherModel);
  }
  if (!(rope.theta > 1)) root.RefuseField("rope_theta", "must be larger than 1", "correct it");
  return rope;
}

bool HasBias(BiasRule rule, bool attention_bias) {
  return rule == BiasRule::kAlways || (rule == BiasRule::kByAttentionBias && attention_bias);
}

}  // namespace

ModelConfig ParseModelConfig(std::string_view text, const std::string& file) {
  const nlohmann::json json = ParseStrictJson(text, file);
  const JsonFields root(json, file, "");
  ModelConfig config;
  config.json = std::string(text);
  config.model_type = root.Text("model_type");
  config.architecture = FindArchitecture(config.model_type);
  if (config.architecture == nullptr) {
    root.RefuseField("model_type", "\"" + config.model_type.substr(0, 40) + "\" is not supported",
                     "these are: " + KnownModelTypes());
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
  config.max_positions = root.Integer("max_position_embeddings", 1, kMaxPositions);
  config.rms_norm_eps = root.Number("rms_norm_eps", 1e-6);
  if (!(config.rms_norm_eps > 0)) root.RefuseField("rms_norm_eps", "must be positive", "correct it");
  const std::string activation = root.Text("hidden_act", "silu");
  if (activation != "silu")
    root.RefuseField("hidden_act", "\"" + activation.substr(0, 40) + "\" is not supported", "silu is");
  config.tied_embeddings = root.Boolean("tie_word_embeddings", false);
  const bool attention_bias = root.Boolean("attention_bias", false);
  config.qkv_bias = HasBias(row.qkv_bias, attention_bias);
  config.output_bias = HasBias(row.output_bias, attention_bias);
  config.mlp_bias = row.has_mlp_bias && root.Boolean("mlp_bias", false);
  config.qk_norm = row.qk_norm;
  RefuseWindow(root, row.window);
  config.rope = ReadRope(root, config.max_positions);
  return config;
}

ModelConfig ReadModelConfig(const std::string& model_dir) {
  const std::string path = (std::filesystem::path(model_dir) / "config.json").string();
  return ParseModelConfig(ReadSmallFile(path, kMaxConfigBytes), path);
}

void RequirePositions(const ModelConfig& config, std::string_view what, int64_t count) {
  if (count <= config.max_positions) return;
  throw std::invalid_argument(std::string(what) + " " + std::to_string(count) + ": the model has " +
                              std::to_string(config.max_positions) +
                              " positions (max_position_embeddings); choose a smaller number");
}

}  // namespace headscope::capture
