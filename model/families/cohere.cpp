// SPDX-License-Identifier: Apache-2.0
// Command R: one norm for attention and MLP in parallel, interleaved positions, logits with a factor.
#include <algorithm>
#include <cstdint>

#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  const RopeKeys keys = {.absent_theta = CohereTheta(root, 500000)};
  config->ropes = {ReadRopeConfig(root, keys, config->head_dim, config->max_positions)};
}

void Read(const JsonFields& root, ModelConfig* config) {
  config->logit_multiplier = root.Number("logit_scale", 0.0625);
  // Command R's files name the length that it was trained for beside the one of its first stage.
  config->max_positions = std::max(config->max_positions, root.Integer("model_max_length", 1, INT32_MAX, 1));
  if (!root.Boolean("use_qk_norm", false)) return;
  for (AttentionLayer& layer : config->layers) layer.qk_norm = QkNorm::kEachHead;
}

}  // namespace

const Family& Cohere() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "cohere";
    row.layer.mlp_norm = {};
    row.layer.q_norm = "self_attn.q_norm";
    row.layer.k_norm = "self_attn.k_norm";
    row.head_norms_apart = true;
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.norm = NormKind::kLayer;
    row.parallel = true;
    row.rope_interleaved = true;
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
