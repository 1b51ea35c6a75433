// SPDX-License-Identifier: Apache-2.0
// SmolLM3: layers that know no positions; where it has windows, they are those layers'.
#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  std::vector<AttentionLayer>& layers = config->layers;
  if (root.Has("no_rope_layers")) {
    const JsonValue turns = root.Array("no_rope_layers");  // 1 where a layer does turn
    if (turns.size() != layers.size())
      root.RefuseField("no_rope_layers", "does not have one entry for each layer", "correct it");
    size_t layer = 0;
    turns.ForEachElement([&](const JsonValue& turn) {
      const std::optional<int64_t> turned = turn.IntegerIn(0, 1);
      if (!turned) root.RefuseField("no_rope_layers", "holds " + turn.Shortened(), "its numbers must be 0 or 1");
      if (*turned == 0) layers[layer].rope = -1;
      ++layer;
    });
  } else {
    const auto interval = static_cast<size_t>(root.Integer("no_rope_layer_interval", 1, INT32_MAX, 4));
    for (size_t layer = interval - 1; layer < layers.size(); layer += interval) layers[layer].rope = -1;
  }
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
