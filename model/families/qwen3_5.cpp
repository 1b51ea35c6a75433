// SPDX-License-Identifier: Apache-2.0
// Qwen 3.5 without experts: as Qwen 3 Next, with an MLP in every layer and the delta rule's projections apart. The
// published files hold a model that sees images as well, of which this is what it does with text.
#include "families/qwen_delta.h"

namespace headscope::model {
namespace {

constexpr Family TextRow(std::string_view model_type) {
  Family row = QwenDeltaLayout(model_type);
  row.linear.qkv = "linear_attn.in_proj_qkv";
  row.linear.z = "linear_attn.in_proj_z";
  row.linear.b = "linear_attn.in_proj_b";
  row.linear.a = "linear_attn.in_proj_a";
  row.rope.mrope_of_text = true;
  row.absent_num_kv_heads = 4;
  row.read = &ReadDeltaLayers;
  return row;
}

}  // namespace

const Family& Qwen35Text() {
  static constexpr Family family = TextRow("qwen3_5_text");
  return family;
}

const Family& Qwen35() {
  static constexpr Family family = [] {
    Family row = TextRow("qwen3_5");
    row.text_model = "text_config";
    row.embedding = "embed_tokens";
    row.final_norm = "norm";
    row.layer_prefix = "layers.";
    row.prefixes = {"model.language_model."};
    row.skipped = {"mtp.", "model.visual."};
    return row;
  }();
  return family;
}

}  // namespace headscope::model
