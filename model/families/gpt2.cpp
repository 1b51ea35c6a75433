// SPDX-License-Identifier: Apache-2.0
// GPT-2: a learned vector for each position, and weights that stand the other way round.
#include <cmath>

#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  if (root.Boolean("add_cross_attention", false))
    root.RefuseUnsupported("add_cross_attention", "true is not supported");
  const bool scaled = root.Boolean("scale_attn_weights", true);
  const bool by_layer = root.Boolean("scale_attn_by_inverse_layer_idx", false);
  double number = 0;
  for (AttentionLayer& layer : config->layers) {
    layer.scale = scaled ? 1 / std::sqrt(static_cast<double>(layer.head_dim)) : 1;
    number += 1;
    if (by_layer) layer.scale /= number;
  }
}

}  // namespace

const Family& Gpt2() {
  static constexpr Family family = {
      .model_type = "gpt2",
      .embedding = "wte",
      .final_norm = "ln_f",
      .head = "lm_head",
      .layer_prefix = "h.",
      .prefixes = {"transformer.", ""},
      .position_embedding = "wpe",
      .layer = {.input_norm = "ln_1",
                .qkv = "attn.c_attn",
                .output = "attn.c_proj",
                .mlp_norm = "ln_2",
                .up = "mlp.c_fc",
                .down = "mlp.c_proj"},
      .derived = {"attn.bias", "attn.masked_bias"},
      .qkv_layout = QkvLayout::kStacked,
      .qkv_bias = BiasRule::kAlways,
      .output_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .norm = NormKind::kLayer,
      .norm_bias = true,
      .transposed = true,
      .keys = {.hidden = "n_embd",
               .inner = "n_inner",
               .layers = "n_layer",
               .heads = "n_head",
               .kv_heads = "",
               .head_dim = "",
               .positions = "n_positions"},
      .absent_inner_of_four = true,
      .norm_eps_key = "layer_norm_epsilon",
      .absent_norm_eps = 1e-5,
      .activation_key = "activation_function",
      .absent_activation = "gelu_new",
      .absent_tied_embeddings = true,
      .absent_max_positions = 1024,
      .read = &Read,
  };
  return family;
}

}  // namespace headscope::model
