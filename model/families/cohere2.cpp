// SPDX-License-Identifier: Apache-2.0
// Command R7B and A: as Command R, with windows in three of four layers, which alone turn by position.
#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  const RopeKeys keys = {.absent_theta = CohereTheta(root, 10000)};
  config->ropes = {ReadRopeConfig(root, keys, config->head_dim, config->max_positions)};
  TurnOnlyWindows(config);
}

void Read(const JsonFields& root, ModelConfig* config) {
  config->logit_multiplier = root.Number("logit_scale", 0.0625);
}

}  // namespace

const Family& Cohere2() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "cohere2";
    row.layer.mlp_norm = {};
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.norm = NormKind::kLayer;
    row.parallel = true;
    row.rope_interleaved = true;
    row.window = WindowRule::kByPattern;
    row.absent_window_pattern = 4;
    row.norm_eps_key = "layer_norm_eps";
    row.absent_norm_eps = 1e-5;
    row.absent_tied_embeddings = true;
    row.absent_max_positions = 8192;
    row.read_ropes = &ReadRopes;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
