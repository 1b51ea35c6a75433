// SPDX-License-Identifier: Apache-2.0
// Command R: one norm for attention and MLP in parallel, interleaved positions, logits with a factor.
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  config->logit_multiplier = root.Number("logit_scale", 0.0625);
  if (root.Boolean("use_qk_norm", false))
    root.RefuseField("use_qk_norm", "true is not supported", "use a model without it");
}

}  // namespace

const Family& Cohere() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "cohere";
    row.layer.mlp_norm = {};
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.norm = NormKind::kLayer;
    row.parallel = true;
    row.rope_interleaved = true;
    row.norm_eps_key = "layer_norm_eps";
    row.absent_norm_eps = 1e-5;
    row.rope.absent_theta = 500000;
    row.absent_tied_embeddings = true;
    row.absent_max_positions = 8192;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
