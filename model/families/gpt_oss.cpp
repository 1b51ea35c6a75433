// SPDX-License-Identifier: Apache-2.0
// GPT-OSS: a logit for each head that has no value, windows in every other layer, and experts that stand in one tensor,
// mostly of four-bit numbers.
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  if (!root.Has("rope_scaling") && !root.Has("rope_parameters"))
    root.RefuseField("rope_scaling", "is missing, and all models of this family have one", "add it to the file");
  const bool mxfp4 = config->experts.mxfp4;
  ReadExperts(root, "num_local_experts", "intermediate_size", config);
  ExpertRules& experts = config->experts;
  experts.mxfp4 = mxfp4;
  experts.score = RouterScore::kSoftmaxOfChosen;
  experts.limit = root.Number("swiglu_limit", 7.0);
  experts.gain = root.Number("swiglu_alpha", 1.702);
  if (!(experts.limit > 0)) root.RefuseField("swiglu_limit", "must be positive", "correct it");
}

}  // namespace

const Family& GptOss() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "gpt_oss";
    row.layer.sinks = "self_attn.sinks";
    row.experts = {
        .router = "mlp.router", .packed_gate_up = "mlp.experts.gate_up_proj", .packed_down = "mlp.experts.down_proj"};
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.norm = NormKind::kRmsInFp32;
    row.window = WindowRule::kByPattern;
    row.absent_window = 128;
    row.absent_window_pattern = 2;
    row.mxfp4_experts = true;
    row.absent_norm_eps = 1e-5;
    row.rope.absent_theta = 150000;
    row.absent_attention_bias = true;
    row.absent_head_dim = 64;
    row.absent_max_positions = 131072;
    row.absent_num_kv_heads = 8;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
