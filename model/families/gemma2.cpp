// SPDX-License-Identifier: Apache-2.0
// Gemma 2, whose scores and logits are capped, whose layers see a window in turn, and which has norms around attention
// and MLP ("Gemma 2: Improving Open Language Models at a Practical Size", section 2).
#include <cmath>

#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  if (root.Boolean("use_bidirectional_attention", false))
    root.RefuseField("use_bidirectional_attention", "true is not supported", "use a model with causal attention");
  config->embedding_multiplier = std::sqrt(static_cast<double>(config->hidden_size));
  if (!root.IsNull("final_logit_softcapping"))
    config->logit_soft_cap = ReadSoftCap(root, "final_logit_softcapping", 30.0);
  const double scalar = root.Number("query_pre_attn_scalar", 256.0);
  if (!(scalar > 0)) root.RefuseField("query_pre_attn_scalar", "must be positive", "correct it");
  for (AttentionLayer& layer : config->layers) {
    layer.scale = 1 / std::sqrt(scalar);
    if (!root.IsNull("attn_logit_softcapping")) layer.soft_cap = ReadSoftCap(root, "attn_logit_softcapping", 50.0);
  }
}

}  // namespace

const Family& Gemma2() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "gemma2";
    row.layer.attention_output_norm = "post_attention_layernorm";
    row.layer.mlp_norm = "pre_feedforward_layernorm";
    row.layer.mlp_output_norm = "post_feedforward_layernorm";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.norm = NormKind::kRmsAboutOne;
    row.window = WindowRule::kByPattern;
    row.absent_window_pattern = 2;
    row.activation_key = "hidden_activation";
    row.absent_activation = "gelu_pytorch_tanh";
    row.absent_tied_embeddings = true;
    row.absent_head_dim = 256;
    row.absent_max_positions = 8192;
    row.absent_num_kv_heads = 4;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
