// SPDX-License-Identifier: Apache-2.0
// Qwen 1 in the layout it was published in: q, k and v in one tensor, and the MLP's size counted for both its inputs.
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "families/ranked_form.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

// Past seq_length its program changes theta and the scores (use_dynamic_ntk, use_logn_attn), so the model is run up to
// there; before it neither does anything.
void Read(const JsonFields& root, ModelConfig* config) {
  if (!root.Boolean("scale_attn_weights", true)) root.RefuseUnsupported("scale_attn_weights", "false is not supported");
  if (config->intermediate_size % 2 != 0) root.RefuseField("intermediate_size", "is not even", "correct it");
  config->intermediate_size /= 2;
  config->output_bias = config->mlp_bias = !root.Boolean("no_bias", true);
}

// After tokenization_qwen.py of Qwen 1, which was published with the weights.
std::vector<std::string> Names(bool) {
  std::vector<std::string> names = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  AddNumberedNames("<|extra_", 0, 205, &names);
  return names;
}

constexpr RankedForm kRankedTokens = {.split = PublishedSplit::kQwen, .composed = true, .names = &Names};

}  // namespace

const Family& Qwen() {
  static constexpr Family family = {
      .model_type = "qwen",
      .embedding = "transformer.wte",
      .final_norm = "transformer.ln_f",
      .head = "lm_head",
      .layer_prefix = "transformer.h.",
      .layer = {.input_norm = "ln_1",
                .qkv = "attn.c_attn",
                .output = "attn.c_proj",
                .mlp_norm = "ln_2",
                .gate = "mlp.w2",
                .up = "mlp.w1",
                .down = "mlp.c_proj"},
      .derived = {"attn.rotary_emb.inv_freq"},
      .derived_of_model = {"transformer.rotary_emb.inv_freq"},
      .qkv_layout = QkvLayout::kStacked,
      .qkv_bias = BiasRule::kAlways,
      .keys = {.kv_heads = "", .head_dim = "kv_channels", .positions = "seq_length"},
      .norm_eps_key = "layer_norm_epsilon",
      .rope = {.theta = "rotary_emb_base", .part = "rotary_pct"},
      .absent_head_dim = 128,
      .absent_max_positions = 8192,
      .read = &Read,
      .ranked_tokens = &kRankedTokens,
  };
  return family;
}

}  // namespace headscope::model
