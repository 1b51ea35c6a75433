// SPDX-License-Identifier: Apache-2.0
// OPT: a learned vector for each position, whose table begins with two rows of no position; the 350m model has its
// norms after the sums, and embeddings of a size of their own.
#include <cstdint>

#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  config->norms_after = !root.Boolean("do_layer_norm_before", true);
  config->final_norm = !config->norms_after && !root.Boolean("_remove_final_layer_norm", false);
  config->embedding_size = static_cast<int32_t>(root.Integer("word_embed_proj_dim", 1, INT32_MAX, config->hidden_size));
  if (!root.Boolean("layer_norm_elementwise_affine", true))
    root.RefuseUnsupported("layer_norm_elementwise_affine", "false is not supported");
  config->qkv_bias = config->output_bias = config->mlp_bias = root.Boolean("enable_bias", true);
}

}  // namespace

const Family& Opt() {
  static constexpr Family family = {
      .model_type = "opt",
      .embedding = "decoder.embed_tokens",
      .final_norm = "decoder.final_layer_norm",
      .head = "lm_head",
      .layer_prefix = "decoder.layers.",
      .prefixes = {"model.", ""},
      .position_embedding = "decoder.embed_positions",
      .first_position = 2,
      .embedding_in = "decoder.project_in",
      .embedding_out = "decoder.project_out",
      .layer = {.input_norm = "self_attn_layer_norm",
                .q = "self_attn.q_proj",
                .k = "self_attn.k_proj",
                .v = "self_attn.v_proj",
                .output = "self_attn.out_proj",
                .mlp_norm = "final_layer_norm",
                .up = "fc1",
                .down = "fc2"},
      .derived = {},
      .derived_of_model = {"decoder.version"},
      .norm = NormKind::kLayer,
      .norm_bias = true,
      .keys = {.inner = "ffn_dim", .kv_heads = "", .head_dim = ""},
      .norm_eps_key = "",
      .absent_norm_eps = 1e-5,
      .activation_key = "activation_function",
      .absent_activation = "relu",
      .absent_tied_embeddings = true,
      .absent_max_positions = 2048,
      .read = &Read,
  };
  return family;
}

}  // namespace headscope::model
