// SPDX-License-Identifier: Apache-2.0
// Granite, with and without experts: factors of embeddings, of what layers add, of scores and of logits.
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
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

void ReadMixture(const JsonFields& root, ModelConfig* config) {
  Read(root, config);
  ReadExperts(root, "num_local_experts", "intermediate_size", config);
  config->experts.score = RouterScore::kSoftmaxOfChosen;
}

constexpr Family Row(std::string_view model_type) {
  Family row = LlamaLayout();
  row.model_type = model_type;
  row.qkv_bias = BiasRule::kByAttentionBias;
  row.output_bias = BiasRule::kByAttentionBias;
  row.absent_max_positions = 2048;
  return row;
}

}  // namespace

const Family& Granite() {
  static constexpr Family family = [] {
    Family row = Row("granite");
    row.mlp_bias = BiasRule::kByMlpBias;
    row.read = &Read;
    return row;
  }();
  return family;
}

const Family& GraniteMoe() {
  static constexpr Family family = [] {
    Family row = Row("granitemoe");
    row.experts = {.router = "block_sparse_moe.router.layer",
                   .packed_gate_up = "block_sparse_moe.input_linear.weight",
                   .packed_down = "block_sparse_moe.output_linear.weight",
                   .packed_as_linear = true};
    row.read = &ReadMixture;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
