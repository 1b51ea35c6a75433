// SPDX-License-Identifier: Apache-2.0
// config.json as one plain struct: what a decoder-only transformer of the supported families needs, checked and with
// defaults filled in.
//
// A key that would change the computation and is not supported (a quantised checkpoint, an unknown kind of layer or of
// position) is refused: running the model without it would show another model's heads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/attention_layer.h"
#include "model/rope_config.h"

namespace headscope::model {

struct Family;

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

struct ModelConfig {
  std::string model_type;
  const Family* family = nullptr;  // of that type; never null after reading
  int32_t num_layers = 0;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t vocabulary_size = 0;
  int64_t max_positions = 0;  // the family's default where the file does not say
  bool max_positions_given = true;
  double norm_eps = 1e-6;
  Activation activation = Activation::kSilu;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  double embedding_multiplier = 1;
  double residual_multiplier = 1;  // of what attention and MLP add
  double logit_multiplier = 1;
  double logit_soft_cap = 0;           // logit = cap * tanh(logit / cap); 0: none
  std::vector<AttentionLayer> layers;  // [num_layers]
  std::vector<RopeConfig> ropes;       // the kinds of positions that layers have; the first is that of most
  std::string json;                    // the file's text, kept in traces
};

// Reads MODEL_DIR/config.json. Throws BadInputError.
ModelConfig ReadModelConfig(const std::string& model_dir);
// The same from text; `file` only names the source in messages.
ModelConfig ParseModelConfig(std::string_view text, const std::string& file);

// "4096 positions (max_position_embeddings)", for messages.
std::string PositionsText(const ModelConfig& config);
// Throws UsageError, naming `what` (such as "length"), when the model has fewer positions than `count`.
void RequirePositions(const ModelConfig& config, std::string_view what, int64_t count);

}  // namespace headscope::model
