// SPDX-License-Identifier: Apache-2.0
// MiniMax M2: norms of q and k over all heads, half of a head turned, and experts that are chosen by sigmoids with a
// correction. Files name the turned components by their number.
#include <cstdint>

#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  RopeKeys keys = {.absent_theta = 5e6};
  if (root.Has("rotary_dim")) {
    const int64_t turned = root.Integer("rotary_dim", 2, config->head_dim);
    if (turned % 2 != 0) root.RefuseField("rotary_dim", "is not even", "rotary positions rotate pairs of components");
    keys.absent_dim = static_cast<int32_t>(turned);  // as a part of head_dim it may come out one less
  }
  config->ropes = {ReadRopeConfig(root, keys, config->head_dim, config->max_positions)};
}

void Read(const JsonFields& root, ModelConfig* config) {
  ReadExperts(root, "num_local_experts", "intermediate_size", config);
  ExpertRules& experts = config->experts;
  if (root.Text("scoring_func", "sigmoid") != "sigmoid")
    root.RefuseUnsupported("scoring_func", "is not supported in this family", "sigmoid is");
  experts.score = RouterScore::kSigmoid;
  experts.normalised = true;
  if (!root.Boolean("use_qk_norm", true)) root.RefuseUnsupported("use_qk_norm", "false is not supported", "true is");
  if (root.Text("qk_norm_type", "per_layer") != "per_layer")
    root.RefuseUnsupported("qk_norm_type", "is not supported", "per_layer is");
}

}  // namespace

const Family& MiniMaxM2() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "minimax_m2";
    row.layer.q_norm = "self_attn.q_norm";
    row.layer.k_norm = "self_attn.k_norm";
    row.experts = {.router = "block_sparse_moe.gate",
                   .correction = "block_sparse_moe.e_score_correction_bias",
                   .each = "block_sparse_moe.experts.",
                   .gate = "w1",
                   .up = "w3",
                   .down = "w2"};
    row.qk_norm = QkNorm::kAllHeads;
    row.absent_head_dim = 128;
    row.absent_max_positions = 196608;
    row.absent_num_kv_heads = 8;
    row.read_ropes = &ReadRopes;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
