// SPDX-License-Identifier: Apache-2.0
#include "families/gemma_layout.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace headscope::model {

void ReadGemmaScales(const JsonFields& root, ModelConfig* config) {
  if (root.Boolean("use_bidirectional_attention", false))
    root.RefuseUnsupported("use_bidirectional_attention", "true is not supported");
  config->embedding_multiplier = std::sqrt(static_cast<double>(config->hidden_size));
  const double scalar = root.Number("query_pre_attn_scalar", 256.0);
  if (!(scalar > 0)) root.RefuseField("query_pre_attn_scalar", "must be positive", "correct it");
  for (AttentionLayer& layer : config->layers) layer.scale = 1 / std::sqrt(scalar);
}

void RefuseEndlessWindow(const JsonFields& root) {
  if (root.Has("sliding_window") && root.Integer("sliding_window", 1, INT64_MAX) > INT32_MAX) {
    root.RefuseField("sliding_window", "is more than 2147483647 tokens, which no trace counts",
                     "name a window that hides tokens");
  }
}

int64_t ReadKvSharing(const JsonFields& root, int64_t absent, ModelConfig* config) {
  std::vector<AttentionLayer>& layers = config->layers;
  const auto most = static_cast<int64_t>(layers.size()) - 1;
  const int64_t first = most + 1 - root.Integer("num_kv_shared_layers", 0, most, std::min(absent, most));
  for (int64_t number = first; number <= most; ++number) {
    AttentionLayer& layer = layers[static_cast<size_t>(number)];
    int64_t source = first - 1;
    while (source >= 0 && (layers[static_cast<size_t>(source)].window > 0) != (layer.window > 0)) --source;
    if (source < 0)
      root.RefuseField("num_kv_shared_layers", "leaves no layer of each kind with keys of its own", "correct it");
    const AttentionLayer& other = layers[static_cast<size_t>(source)];
    if (other.head_dim != layer.head_dim || other.num_kv_heads != layer.num_kv_heads)
      root.RefuseField("num_kv_shared_layers", "makes layers with different heads share keys", "correct it");
    layer.kv_layer = static_cast<int32_t>(source);
  }
  return first;
}

}  // namespace headscope::model
