// SPDX-License-Identifier: Apache-2.0
// Gemma 1: norms of 1 + weight, and embeddings with a factor.
#include <cmath>

#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  if (root.Boolean("use_bidirectional_attention", false))
    root.RefuseUnsupported("use_bidirectional_attention", "true is not supported");
  // The first files say gelu and mean its approximation; hidden_activation is the same key of later ones.
  if (root.Text("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh")
    root.RefuseUnsupported("hidden_activation", "is not supported in this family", "gelu_pytorch_tanh is");
  if (config->activation == Activation::kGelu) config->activation = Activation::kGeluTanh;
  config->embedding_multiplier = std::sqrt(static_cast<double>(config->hidden_size));
}

}  // namespace

const Family& Gemma() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "gemma";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.norm = NormKind::kRmsAboutOne;
    row.absent_activation = "gelu_pytorch_tanh";
    row.absent_tied_embeddings = true;
    row.absent_head_dim = 256;
    row.absent_max_positions = 8192;
    row.absent_num_kv_heads = 16;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
