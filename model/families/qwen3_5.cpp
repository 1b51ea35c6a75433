// SPDX-License-Identifier: Apache-2.0
// Qwen 3.5: as Qwen 3 Next, with the delta rule's projections apart, and an MLP in every layer or experts in every
// layer, all of them in one tensor as published, and each apart as transformers writes them. The published files hold a
// model that sees images as well, of which this is what it does with text.
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/qwen_delta.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

constexpr Family TextRow(std::string_view model_type) {
  Family row = QwenDeltaLayout(model_type);
  row.mixer.qkv = "linear_attn.in_proj_qkv";
  row.mixer.z = "linear_attn.in_proj_z";
  row.mixer.b = "linear_attn.in_proj_b";
  row.mixer.a = "linear_attn.in_proj_a";
  row.rope.mrope_of_text = true;
  row.absent_num_kv_heads = 4;
  row.read = &ReadDeltaLayers;
  return row;
}

void ReadWithExperts(const JsonFields& root, ModelConfig* config) {
  ReadDeltaLayers(root, config);
  ReadExperts(root, "num_experts", "moe_intermediate_size", config);
  config->experts.normalised = true;
  config->experts.shared_size = static_cast<int32_t>(root.Integer("shared_expert_intermediate_size", 1, 1 << 24, 512));
}

constexpr Family ExpertsRow(Family row) {
  row.experts = QwenExperts();
  row.experts.packed_gate_up = "mlp.experts.gate_up_proj";
  row.experts.packed_down = "mlp.experts.down_proj";
  row.experts.packed_as_linear = true;
  row.keys.inner = "moe_intermediate_size";  // every layer's MLP is of experts
  row.absent_num_kv_heads = 2;
  row.read = &ReadWithExperts;
  return row;
}

constexpr Family WithImages(Family row) {
  row = InsideModelWithImages(row, {"model.language_model."});
  row.skipped = {"mtp.", "model.visual."};
  return row;
}

}  // namespace

const Family& Qwen35Text() {
  static constexpr Family family = TextRow("qwen3_5_text");
  return family;
}

const Family& Qwen35() {
  static constexpr Family family = WithImages(TextRow("qwen3_5"));
  return family;
}

const Family& Qwen35MoeText() {
  static constexpr Family family = ExpertsRow(TextRow("qwen3_5_moe_text"));
  return family;
}

const Family& Qwen35Moe() {
  static constexpr Family family = WithImages(ExpertsRow(TextRow("qwen3_5_moe")));
  return family;
}

}  // namespace headscope::model
