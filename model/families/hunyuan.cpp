// SPDX-License-Identifier: Apache-2.0
// Hunyuan of 2025 without experts: norms of q and k behind RoPE, whose files call a fixed stretch of its base
// "dynamic".
#include <cmath>

#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  RopeConfig rope = ReadRopeConfig(root, {}, config->head_dim, config->max_positions);
  const char* key = root.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (rope.type == RopeType::kDynamic && root.Object(key).Has("alpha")) {
    // theta * alpha ^ (dim / (dim - 2)), whatever the sequence's length.
    const JsonFields fields = root.Object(key);
    const double alpha = fields.Number("alpha"), dim = config->head_dim;
    constexpr double kMostAlpha = 1e9;
    if (!(alpha > 0) || alpha > kMostAlpha) fields.RefuseField("alpha", "is not between 0 and 1e9", "correct it");
    rope.theta *= std::pow(alpha, dim / (dim - 2));
    if (!IsTheta(rope.theta)) fields.RefuseField("alpha", "gives a theta that is not between 1 and 1e30", "correct it");
    rope.type = RopeType::kDefault;
    rope.factor = 1;
  }
  config->ropes = {rope};
}

}  // namespace

const Family& HunyuanDense() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "hunyuan_v1_dense";
    row.layer.q_norm = "self_attn.query_layernorm";
    row.layer.k_norm = "self_attn.key_layernorm";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.qk_norm = QkNorm::kEachHeadAfterRope;
    row.absent_norm_eps = 1e-5;
    row.absent_max_positions = 2048;
    row.read_ropes = &ReadRopes;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
