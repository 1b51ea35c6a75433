// SPDX-License-Identifier: Apache-2.0
// Qwen 3 Next: three of four layers have a gated delta rule in place of attention; where there is attention, what it
// puts out has a gate.
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/qwen_delta.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  ReadDeltaLayers(root, config);
  ReadExperts(root, "num_experts", "moe_intermediate_size", config);
  ReadSparseLayers(root, config);
  config->experts.normalised = root.Boolean("norm_topk_prob", true);
  config->experts.shared_size = static_cast<int32_t>(root.Integer("shared_expert_intermediate_size", 1, 1 << 24, 512));
}

}  // namespace

const Family& Qwen3Next() {
  static constexpr Family family = [] {
    Family row = QwenDeltaLayout("qwen3_next");
    row.experts = QwenExperts();
    row.mixer.qkvz = "linear_attn.in_proj_qkvz";
    row.mixer.ba = "linear_attn.in_proj_ba";
    row.absent_num_kv_heads = 2;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
