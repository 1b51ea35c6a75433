// SPDX-License-Identifier: Apache-2.0
// Granite: factors of embeddings, of what layers add, of scores and of logits.
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  config->embedding_multiplier = root.Number("embedding_multiplier", 1.0);
  config->residual_multiplier = root.Number("residual_multiplier", 1.0);
  const double scaling = root.Number("logits_scaling", 1.0);
  if (!(scaling > 0)) root.RefuseField("logits_scaling", "must be positive", "correct it");
  config->logit_multiplier = 1 / scaling;
  const double scale = root.Number("attention_multiplier", 1.0);
  if (!(scale > 0)) root.RefuseField("attention_multiplier", "must be positive", "correct it");
  for (AttentionLayer& layer : config->layers) layer.scale = scale;
}

}  // namespace

const Family& Granite() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "granite";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.mlp_bias = BiasRule::kByMlpBias;
    row.absent_max_positions = 2048;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
