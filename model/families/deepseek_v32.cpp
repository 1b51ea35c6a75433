// SPDX-License-Identifier: Apache-2.0
// DeepSeek V3.2: as V3, with an index in every layer that chooses the keys which a row attends to.
#include <cstdint>

#include "checkpoint/strict_json.h"
#include "families/deepseek.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

constexpr int64_t kMostHeads = 1 << 16;
constexpr int64_t kMostDim = 4096;
constexpr int64_t kMostSelected = 1 << 16;  // ids that a trace holds of a row

void Read(const JsonFields& root, ModelConfig* config) {
  ReadSigmoidRouter(root, kRoutingOfDeepSeekV3, config);
  if (config->latent.q_rank == 0)
    root.RefuseField("q_lora_rank", "is null, and the index reads q's latent", "use a model that has one");
  if (root.Has("layer_types")) {
    const JsonValue kinds = root.Array("layer_types");
    if (kinds.size() != config->layers.size())
      root.RefuseField("layer_types", "does not have one entry for each layer", "correct it");
    kinds.ForEachElement([&](const JsonValue& kind) {
      if (kind.IsString() && kind.Text() == "indexed_attention") return;
      root.RefuseUnsupported("layer_types", kind.Shortened() + " is not supported in this family",
                             "indexed_attention is");
    });
  }
  IndexRules& index = config->index;
  index.heads = static_cast<int32_t>(root.Integer("index_n_heads", 1, kMostHeads, 64));
  index.dim = static_cast<int32_t>(root.Integer("index_head_dim", 2, kMostDim, 128));
  if (index.dim < config->latent.rope_dim)
    root.RefuseField("index_head_dim", "is below qk_rope_head_dim", "correct one of the two");
  // The index turns the first components of its vectors, in halves.
  RopeConfig rope = config->ropes[0];
  rope.first_dim = 0;
  rope.interleaved = false;
  index.rope = static_cast<int32_t>(config->ropes.size());
  config->ropes.push_back(rope);
  const auto selected = static_cast<int32_t>(root.Integer("index_topk", 1, kMostSelected, 2048));
  for (AttentionLayer& layer : config->layers) layer.selected = selected;
}

}  // namespace

const Family& DeepSeekV32() {
  static constexpr Family family = [] {
    Family row = DeepSeekV3Layout("deepseek_v32");
    row.layer.index_q = "self_attn.indexer.wq_b";
    row.layer.index_k = "self_attn.indexer.wk";
    row.layer.index_k_norm = "self_attn.indexer.k_norm";
    row.layer.index_weights = "self_attn.indexer.weights_proj";
    row.window = WindowRule::kOwn;
    row.absent_max_positions = 163840;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
