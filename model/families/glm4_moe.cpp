// SPDX-License-Identifier: Apache-2.0
// GLM 4.5 to 4.7: half of a head turned, norms of q and k where the file says so, and DeepSeek V3's experts.
#include "checkpoint/strict_json.h"
#include "families/deepseek.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  ReadSigmoidRouter(root, {.factor = 1.0, .groups = 1, .kept = 1}, config);
  config->ropes[0].interleaved = false;
  if (!root.Boolean("use_qk_norm", false)) return;
  for (AttentionLayer& layer : config->layers) layer.qk_norm = QkNorm::kEachHead;
}

}  // namespace

const Family& Glm4Moe() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "glm4_moe";
    row.layer.q_norm = "self_attn.q_norm";
    row.layer.k_norm = "self_attn.k_norm";
    row.experts = DeepSeekV3Layout({}).experts;
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.absent_norm_eps = 1e-5;
    row.rope.absent_part = 0.5;
    row.absent_max_positions = 131072;
    row.absent_num_kv_heads = 8;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
