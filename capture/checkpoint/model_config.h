// config.json as one plain struct: what a decoder-only transformer of the supported families needs, checked and with
// defaults filled in.
//
// A key that would change the computation and is not supported (a sliding window, a quantised checkpoint, an unknown
// RoPE type) is refused: running the model without it would show another model's heads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headscope::capture {

struct ArchitectureRow;

enum class RopeType { kDefault, kLinear, kLlama3 };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  double factor = 1;  // linear, llama3: how far positions are stretched
  // llama3 only: wavelengths over original/low_freq_factor are stretched, those under original/high_freq_factor are
  // not.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_positions = 0;
};

struct ModelConfig {
  std::string model_type;
  const ArchitectureRow* architecture = nullptr;  // of that type; never null after reading
  int32_t num_layers = 0;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t vocabulary_size = 0;
  int64_t max_positions = 0;
  double rms_norm_eps = 1e-6;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;  // RMS norm of every head's q and k, before RoPE
  RopeConfig rope;
  std::string json;  // the file's text, kept in traces
};

// Reads MODEL_DIR/config.json. Throws BadInputError.
ModelConfig ReadModelConfig(const std::string& model_dir);
// The same from text; `file` only names the source in messages.
ModelConfig ParseModelConfig(std::string_view text, const std::string& file);

// Throws std::invalid_argument, naming `what` (such as "length"), when the model has fewer positions than `count`.
void RequirePositions(const ModelConfig& config, std::string_view what, int64_t count);

}  // namespace headscope::capture
