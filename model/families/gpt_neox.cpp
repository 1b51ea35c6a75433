// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX and Pythia: q, k and v in one tensor head by head, norms with a mean and a bias, an MLP without a gate, and
// attention and MLP in parallel unless the file says otherwise.
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  config->parallel = root.Boolean("use_parallel_residual", true);
}

}  // namespace

const Family& GptNeox() {
  static constexpr Family family = {
      .model_type = "gpt_neox",
      .embedding = "gpt_neox.embed_in",
      .final_norm = "gpt_neox.final_layer_norm",
      .head = "embed_out",
      .layer_prefix = "gpt_neox.layers.",
      .layer = {.input_norm = "input_layernorm",
                .qkv = "attention.query_key_value",
                .output = "attention.dense",
                .mlp_norm = "post_attention_layernorm",
                .up = "mlp.dense_h_to_4h",
                .down = "mlp.dense_4h_to_h"},
      .derived = {"attention.rotary_emb.inv_freq", "attention.bias", "attention.masked_bias"},
      .qkv_layout = QkvLayout::kByKvHead,
      .qkv_bias = BiasRule::kByAttentionBias,
      .output_bias = BiasRule::kByAttentionBias,
      .mlp_bias = BiasRule::kAlways,
      .norm = NormKind::kLayer,
      .norm_bias = true,
      .parallel = true,
      .norm_eps_key = "layer_norm_eps",
      .absent_norm_eps = 1e-5,
      .rope = {.theta = "rotary_emb_base", .part = "rotary_pct", .absent_part = 0.25},
      .absent_activation = "gelu",
      .absent_attention_bias = true,
      .absent_max_positions = 2048,
      .read = &Read,
  };
  return family;
}

}  // namespace headscope::model
