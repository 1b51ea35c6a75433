// SPDX-License-Identifier: Apache-2.0
// BERT and its encoders: every token sees all others, learned positions, norms after the sums. What stands after the
// last layer (a pooler, heads) is not run.
#include <cstdint>

#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (root.Boolean(key, false)) root.RefuseUnsupported(key, "true is not supported");
  }
  if (root.Text("position_embedding_type", "absolute") != "absolute")
    root.RefuseUnsupported("position_embedding_type", "is not supported", "absolute is");
  config->num_token_types = static_cast<int32_t>(root.Integer("type_vocab_size", 1, 1 << 24, 2));
  config->norms_after = true;
  config->final_norm = false;
}

}  // namespace

const Family& Bert() {
  static constexpr Family family = {
      .model_type = "bert",
      .embedding = "embeddings.word_embeddings",
      .layer_prefix = "encoder.layer.",
      .prefixes = {"bert.", ""},
      .position_embedding = "embeddings.position_embeddings",
      .token_types = "embeddings.token_type_embeddings",
      .embedding_norm = "embeddings.LayerNorm",
      .layer = {.input_norm = "attention.output.LayerNorm",
                .q = "attention.self.query",
                .k = "attention.self.key",
                .v = "attention.self.value",
                .output = "attention.output.dense",
                .mlp_norm = "output.LayerNorm",
                .up = "intermediate.dense",
                .down = "output.dense"},
      .derived = {},
      .derived_of_model = {"embeddings.position_ids"},
      .skipped = {"cls.", "pooler.", "bert.pooler."},
      .qkv_bias = BiasRule::kAlways,
      .output_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .norm = NormKind::kLayer,
      .norm_bias = true,
      .causal = false,
      .keys = {.kv_heads = "", .head_dim = ""},
      .norm_eps_key = "layer_norm_eps",
      .absent_norm_eps = 1e-12,
      .absent_activation = "gelu",
      .absent_max_positions = 512,
      .read = &Read,
  };
  return family;
}

}  // namespace headscope::model
