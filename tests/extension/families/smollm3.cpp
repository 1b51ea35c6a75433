// SPDX-License-Identifier: Apache-2.0
// For the switch that it has: layers that know no positions.
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  const JsonValue turns = root.Array("no_rope_layers");  // 1 where a layer does turn
  if (turns.size() != config->layers.size())
    root.RefuseField("no_rope_layers", "has not one entry for each layer", "correct it");
  size_t layer = 0;
  turns.ForEachElement([&](const JsonValue& turn) {
    if (turn.IsNumber() && turn.Number() == 0) config->layers[layer].rope = -1;
    ++layer;
  });
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
    row.absent_tied_embeddings = true;
    row.absent_max_positions = 32768;
    row.absent_num_kv_heads = 4;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
