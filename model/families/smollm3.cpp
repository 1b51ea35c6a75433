// SPDX-License-Identifier: Apache-2.0
// SmolLM3: layers that know no positions; where it has windows, they are those layers'.
#include <cstdint>
#include <vector>

#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  std::vector<AttentionLayer>& layers = config->layers;
  ReadTurnedLayers(root, /*empty_is_absent=*/false, config);
  if (root.Has("layer_types")) return;
  const int64_t window =
      root.Boolean("use_sliding_window", false) ? root.Integer("sliding_window", 1, INT64_MAX, 0) : 0;
  for (AttentionLayer& layer : layers)
    layer.window = layer.rope < 0 && window <= INT32_MAX ? static_cast<int32_t>(window) : 0;
}

}  // namespace

const Family& SmolLm3() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "smollm3";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.mlp_bias = BiasRule::kByMlpBias;
    row.window = WindowRule::kByUseSlidingWindow;
    row.absent_window = 0;
    row.rope.absent_theta = 2000000;
    row.absent_tied_embeddings = true;
    row.absent_max_positions = 32768;
    row.absent_num_kv_heads = 4;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
