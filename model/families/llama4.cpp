// SPDX-License-Identifier: Apache-2.0
// Llama 4: most layers attend within blocks of tokens, the others know no positions and have queries that grow with
// theirs; experts of which every token takes one beside a shared one. Of the models that see images as well, what they
// do with text.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void ReadBlocks(const JsonFields& root, ModelConfig* config) {
  std::vector<AttentionLayer>& layers = config->layers;
  if (root.IsNull("attention_chunk_size")) return;
  constexpr int64_t kAbsentChunk = 8192;
  const int64_t chunk = root.Integer("attention_chunk_size", 1, INT64_MAX, kAbsentChunk);
  const auto blocks = static_cast<int32_t>(std::min<int64_t>(chunk, INT32_MAX));
  for (AttentionLayer& layer : layers) layer.chunk = layer.rope >= 0 ? blocks : 0;
  if (!root.Has("layer_types")) return;
  const std::vector<bool> is_full =
      ReadSecondKind(root, "layer_types", layers.size(), "chunked_attention", "full_attention");
  for (size_t layer = 0; layer < layers.size(); ++layer) layers[layer].chunk = is_full[layer] ? 0 : blocks;
}

void ReadMixture(const JsonFields& root, ModelConfig* config) {
  ReadExperts(root, "num_local_experts", "intermediate_size", config);
  ExpertRules& experts = config->experts;
  experts.score = RouterScore::kSigmoid;
  experts.weigh_inputs = true;
  experts.shared_size = experts.inner_size;
  const size_t count = experts.layers.size();
  experts.layers.assign(count, false);
  if (root.Has("moe_layers")) {
    root.Array("moe_layers").ForEachElement([&](const JsonValue& number) {
      const std::optional<int64_t> layer = number.IntegerIn(0, static_cast<int64_t>(count) - 1);
      if (!layer) root.RefuseField("moe_layers", "holds " + number.Shortened(), "its numbers must be layers");
      experts.layers[static_cast<size_t>(*layer)] = true;
    });
  } else {
    const auto step = static_cast<size_t>(root.Integer("interleave_moe_layer_step", 1, INT32_MAX, 1));
    for (size_t layer = step - 1; layer < count; layer += step) experts.layers[layer] = true;
  }
}

// Published files name a number, of which only whether it is 0 matters.
bool QueriesGrow(const JsonFields& root) {
  constexpr std::string_view kKey = "attn_temperature_tuning";
  const std::optional<JsonValue> value = root.Find(kKey);
  return value && value->IsNumber() ? root.Integer(kKey, 0, INT32_MAX) != 0 : root.Boolean(kKey, true);
}

void Read(const JsonFields& root, ModelConfig* config) {
  ReadTurnedLayers(root, /*empty_is_absent=*/true, config);
  ReadBlocks(root, config);
  ReadMixture(root, config);
  QueryGrowth growth = {.shift = 1};
  if (QueriesGrow(root)) {
    growth.rate = root.Number("attn_scale", 0.1);
    growth.length = root.Integer("floor_scale", 1, INT32_MAX, 8192);
  }
  const bool has_norms = root.Boolean("use_qk_norm", true);
  for (AttentionLayer& layer : config->layers) {
    if (layer.rope < 0) layer.growth = growth;
    if (layer.rope < 0 || !has_norms) layer.qk_norm = QkNorm::kNone;
  }
}

constexpr Family TextRow() {
  Family row = LlamaLayout();
  row.model_type = "llama4_text";
  row.embedding = "embed_tokens";
  row.final_norm = "norm";
  row.layer_prefix = "layers.";
  row.prefixes = {"model.", "language_model.model."};
  row.other_head = "language_model.lm_head";
  row.layer.gate = "feed_forward.gate_proj";
  row.layer.up = "feed_forward.up_proj";
  row.layer.down = "feed_forward.down_proj";
  row.experts = {.router = "feed_forward.router",
                 .packed_gate_up = "feed_forward.experts.gate_up_proj",
                 .packed_down = "feed_forward.experts.down_proj",
                 .packed_as_linear = true,
                 .packed_from_in = true,
                 .shared_gate = "feed_forward.shared_expert.gate_proj",
                 .shared_up = "feed_forward.shared_expert.up_proj",
                 .shared_down = "feed_forward.shared_expert.down_proj"};
  row.qkv_bias = BiasRule::kByAttentionBias;
  row.output_bias = BiasRule::kByAttentionBias;
  row.qk_norm = QkNorm::kEachHeadAfterRope;
  row.head_norms_without_weight = true;
  row.rope_interleaved = true;
  row.window = WindowRule::kOwn;
  row.keys.inner = "intermediate_size_mlp";
  row.absent_norm_eps = 1e-5;
  row.rope.absent_theta = 500000;
  row.absent_head_dim = 128;
  row.absent_max_positions = 131072;
  row.absent_num_kv_heads = 8;
  row.read = &Read;
  return row;
}

}  // namespace

const Family& Llama4Text() {
  static constexpr Family family = TextRow();
  return family;
}

const Family& Llama4() {
  static constexpr Family family = [] {
    Family row = TextRow();
    row.model_type = "llama4";
    row.text_model = "text_config";
    row.prefixes = {"language_model.model.", "model.language_model."};  // in files, and in modules of transformers 5
    row.skipped = {"vision_model.", "multi_modal_projector.", "model.vision_model.", "model.multi_modal_projector."};
    return row;
  }();
  return family;
}

}  // namespace headscope::model
