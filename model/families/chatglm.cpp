// SPDX-License-Identifier: Apache-2.0
// ChatGLM 2, 3 and GLM 4 in the layout they were published in: keys and names of their own, q, k and v in one tensor.
#include <cstdint>

#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "families/ranked_form.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Refuse(const JsonFields& root, std::string_view key, bool wanted) {
  if (root.Boolean(key, wanted) != wanted)
    root.RefuseUnsupported(key, wanted ? "false is not supported" : "true is not supported");
}

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  constexpr double kTheta = 10000;
  const double ratio = root.Number("rope_ratio", 1.0);
  if (!(ratio > 0) || ratio > 1e6) root.RefuseField("rope_ratio", "is not between 0 and 1000000", "correct it");
  RopeConfig rope;
  rope.theta = kTheta * ratio;
  if (!(rope.theta > 1)) root.RefuseField("rope_ratio", "gives a theta of at most 1", "correct it");
  rope.max_positions = config->max_positions;
  rope.rotary_dim = config->head_dim / 2;
  if (rope.rotary_dim % 2 != 0) root.RefuseField("kv_channels", "is not a multiple of 4", "correct it");
  config->ropes = {rope};
}

void Read(const JsonFields& root, ModelConfig* config) {
  Refuse(root, "rmsnorm", true);
  Refuse(root, "post_layer_norm", true);
  Refuse(root, "apply_residual_connection_post_layernorm", false);
  config->ropes[0].interleaved = root.Boolean("original_rope", true);
  const bool every_bias = root.Boolean("add_bias_linear", false);
  config->qkv_bias = root.Boolean("add_qkv_bias", false) || every_bias;
  config->output_bias = config->mlp_bias = every_bias;
  if (!root.Boolean("multi_query_attention", false)) return;
  config->num_kv_heads = static_cast<int32_t>(root.Integer("multi_query_group_num", 1, config->num_qo_heads, 1));
  if (config->num_qo_heads % config->num_kv_heads != 0)
    root.RefuseField("multi_query_group_num", "does not divide num_attention_heads", "correct one of the two");
  for (AttentionLayer& layer : config->layers) layer.num_kv_heads = config->num_kv_heads;
}

// After tokenization_chatglm.py of GLM 4, which was published with the weights.
std::vector<std::string> Names(bool) {
  return {"<|endoftext|>", "[MASK]",     "[gMASK]",  "[sMASK]",       "<sop>",
          "<eop>",         "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"};
}

constexpr RankedForm kRankedTokens = {.names = &Names, .before = {"[gMASK]", "<sop>"}};

}  // namespace

const Family& ChatGlm() {
  static constexpr Family family = {
      .model_type = "chatglm",
      .embedding = "transformer.embedding.word_embeddings",
      .final_norm = "transformer.encoder.final_layernorm",
      .head = "transformer.output_layer",
      .layer_prefix = "transformer.encoder.layers.",
      .layer = {.input_norm = "input_layernorm",
                .qkv = "self_attention.query_key_value",
                .output = "self_attention.dense",
                .mlp_norm = "post_attention_layernorm",
                .gate_up = "mlp.dense_h_to_4h",
                .down = "mlp.dense_4h_to_h"},
      .derived = {},
      .derived_of_model = {"transformer.rotary_pos_emb.inv_freq"},
      .qkv_layout = QkvLayout::kStacked,
      .rope_interleaved = true,
      .keys = {.inner = "ffn_hidden_size",
               .layers = "num_layers",
               .kv_heads = "",
               .head_dim = "kv_channels",
               .vocabulary = "padded_vocab_size",
               .positions = "seq_length"},
      .norm_eps_key = "layernorm_epsilon",
      .absent_norm_eps = 1e-5,
      .absent_head_dim = 128,
      .absent_max_positions = 2048,
      .read = &Read,
      .read_ropes = &ReadRopes,
      .ranked_tokens = &kRankedTokens,
  };
  return family;
}

}  // namespace headscope::model
