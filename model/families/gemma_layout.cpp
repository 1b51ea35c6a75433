// SPDX-License-Identifier: Apache-2.0
#include "families/gemma_layout.h"

#include <cmath>

namespace headscope::model {

void ReadGemmaScales(const JsonFields& root, ModelConfig* config) {
  if (root.Boolean("use_bidirectional_attention", false))
    root.RefuseField("use_bidirectional_attention", "true is not supported", "use a model with causal attention");
  config->embedding_multiplier = std::sqrt(static_cast<double>(config->hidden_size));
  const double scalar = root.Number("query_pre_attn_scalar", 256.0);
  if (!(scalar > 0)) root.RefuseField("query_pre_attn_scalar", "must be positive", "correct it");
  for (AttentionLayer& layer : config->layers) layer.scale = 1 / std::sqrt(scalar);
}

}  // namespace headscope::model
