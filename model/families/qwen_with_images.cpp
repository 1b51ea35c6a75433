// SPDX-License-Identifier: Apache-2.0
// Qwen 2 VL, 2.5 VL and 3 VL, with and without experts: what these models that see images do with text. The three
// positions that they give a token are one number for text, so their rotations are the usual ones. Older files of Qwen
// 2 VL and 2.5 VL have the text model's keys beside the others.
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

constexpr Family WithImages(Family row, std::string_view model_type) {
  row = InsideModelWithImages(row, {"model.language_model.", "model."});
  row.model_type = model_type;
  row.skipped = {"visual.", "model.visual."};
  row.rope.mrope_of_text = true;
  return row;
}

constexpr Family Qwen2Row(std::string_view model_type) {
  Family row = WithImages(LlamaLayout(), model_type);
  row.text_model_may_be_whole = true;
  row.qkv_bias = BiasRule::kAlways;
  row.window = WindowRule::kByUseSlidingWindow;
  row.absent_norm_eps = 1e-5;
  row.rope.absent_theta = 1e6;
  row.absent_max_positions = 32768;
  row.absent_num_kv_heads = 8;
  return row;
}

constexpr Family Qwen3Row(std::string_view model_type) {
  Family row = WithImages(LlamaLayout(), model_type);
  row.layer.q_norm = "self_attn.q_norm";
  row.layer.k_norm = "self_attn.k_norm";
  row.qkv_bias = BiasRule::kByAttentionBias;
  row.output_bias = BiasRule::kByAttentionBias;
  row.qk_norm = QkNorm::kEachHead;
  row.rope.absent_theta = 500000;
  row.absent_max_positions = 128000;
  return row;
}

void ReadMixture(const JsonFields& root, ModelConfig* config) {
  ReadExperts(root, "num_experts", "moe_intermediate_size", config);
  ReadSparseLayers(root, config);
  config->experts.normalised = true;
}

}  // namespace

const Family& Qwen2Vl() {
  static constexpr Family family = Qwen2Row("qwen2_vl");
  return family;
}

const Family& Qwen25Vl() {
  static constexpr Family family = Qwen2Row("qwen2_5_vl");
  return family;
}

const Family& Qwen3Vl() {
  static constexpr Family family = [] {
    Family row = Qwen3Row("qwen3_vl");
    row.absent_head_dim = 128;
    row.absent_num_kv_heads = 32;
    return row;
  }();
  return family;
}

const Family& Qwen3VlMoe() {
  static constexpr Family family = [] {
    Family row = Qwen3Row("qwen3_vl_moe");
    row.experts = NumberedExperts();
    row.experts.packed_gate_up = "mlp.experts.gate_up_proj";
    row.experts.packed_down = "mlp.experts.down_proj";
    row.experts.packed_as_linear = true;
    row.experts.packed_from_in = true;  // as they are published
    row.absent_num_kv_heads = 16;
    row.read = &ReadMixture;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
