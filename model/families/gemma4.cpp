// SPDX-License-Identifier: Apache-2.0
// Gemma 4: layers without a window have larger heads, of which few components are turned, and may make v of k's
// projection; the last layers read keys and values of earlier ones; layers may get numbers of every token beside the
// hidden state (per-layer embeddings, PLE), and experts beside their MLP. Of the models that see images and hear as
// well, what they do with text.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/gemma_layout.h"

namespace headscope::model {
namespace {

constexpr int64_t kMostHeadDim = 4096, kMostHeads = 65536, kMostInput = 1 << 20;

int32_t HeadDim(const JsonFields& fields, std::string_view key, std::optional<int64_t> absent) {
  const int64_t dim = fields.Integer(key, 2, kMostHeadDim, absent);
  if (dim % 2 != 0)
    fields.RefuseField(key, std::to_string(dim) + " is not even", "rotary positions rotate pairs of components");
  return static_cast<int32_t>(dim);
}

void SetKvHeads(const JsonFields& fields, std::string_view key, AttentionLayer* layer) {
  layer->num_kv_heads = static_cast<int32_t>(fields.Integer(key, 1, kMostHeads));
  if (layer->num_qo_heads % layer->num_kv_heads != 0)
    fields.RefuseField(key, "does not divide num_attention_heads", "correct one of the two");
}

void SetHeadDim(int32_t dim, AttentionLayer* layer) {
  layer->head_dim = layer->v_head_dim = dim;
}

// Files of transformers 5.23 say layer by layer what published ones say of all layers without a window.
void ReadLayerByLayer(const JsonFields& root, ModelConfig* config) {
  constexpr std::string_view kKey = "per_layer_config";
  root.Find(kKey)->ForEachMember([&](std::string_view number, const JsonValue& value) {
    size_t layer = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), layer);
    if (error != std::errc() || end != number.data() + number.size() || layer >= config->layers.size())
      root.RefuseField(kKey, "names " + Quoted(number), "it must be the number of a layer");
    const JsonFields fields(value, root.file(), root.PathOf(kKey) + "." + std::string(number));
    value.ForEachMember([&](std::string_view key, const JsonValue&) {
      if (key != "head_dim" && key != "num_key_value_heads")
        fields.RefuseUnsupported(key, "is not supported",
                                 "head_dim and num_key_value_heads may differ from layer to layer");
    });
    if (fields.Has("head_dim")) SetHeadDim(HeadDim(fields, "head_dim", {}), &config->layers[layer]);
    if (fields.Has("num_key_value_heads")) SetKvHeads(fields, "num_key_value_heads", &config->layers[layer]);
  });
}

void ReadHeads(const JsonFields& root, ModelConfig* config) {
  RefuseEndlessWindow(root);
  config->layers.back().window = 0;  // whatever layer_types says
  const bool equal = root.Boolean("attention_k_eq_v", false);
  for (AttentionLayer& layer : config->layers) {
    layer.scale = 1;
    layer.v_is_projected_k = equal && layer.window == 0;
  }
  if (root.Has("per_layer_config")) {
    if (!root.Find("per_layer_config")->IsObject())
      root.RefuseField("per_layer_config", "is not an object", "it maps numbers of layers to what differs there");
    return ReadLayerByLayer(root, config);
  }
  constexpr int64_t kAbsentDim = 512;
  for (AttentionLayer& layer : config->layers) {
    if (layer.window > 0) continue;
    SetHeadDim(HeadDim(root, "global_head_dim", kAbsentDim), &layer);
    if (equal && root.Has("num_global_key_value_heads")) SetKvHeads(root, "num_global_key_value_heads", &layer);
  }
}

void ReadSharing(const JsonFields& root, ModelConfig* config) {
  std::vector<AttentionLayer>& layers = config->layers;
  const int64_t first = ReadKvSharing(root, 0, config), most = static_cast<int64_t>(layers.size()) - 1;
  if (!root.Boolean("use_double_wide_mlp", false) || first > most) return;
  constexpr int32_t kMostInner = 1 << 23;
  if (config->intermediate_size > kMostInner) root.RefuseField("intermediate_size", "is too large", "correct it");
  config->inner_sizes.assign(layers.size(), config->intermediate_size);
  std::fill(config->inner_sizes.begin() + first, config->inner_sizes.end(), 2 * config->intermediate_size);
}

// The layers without a window have one kind of heads, and so one kind of positions; and so have those with one.
void ReadPositions(const JsonFields& root, ModelConfig* config) {
  int32_t dims[2] = {0, 0};  // without, with a window
  for (AttentionLayer& layer : config->layers) {
    layer.rope = layer.window > 0 ? 1 : 0;
    int32_t& dim = dims[layer.rope];
    if (dim != 0 && dim != layer.head_dim)
      root.RefuseField("per_layer_config", "gives layers of one kind heads of different sizes", "correct it");
    dim = layer.head_dim;
  }
  if (dims[1] == 0) dims[1] = config->head_dim;
  if (root.Has("rope_parameters")) {
    config->ropes = {ReadRopeConfig(root, {.absent_theta = 1e6}, dims[0], config->max_positions, "full_attention"),
                     ReadRopeConfig(root, {}, dims[1], config->max_positions, "sliding_attention")};
    return;
  }
  constexpr int32_t kTurnedPart = 4;
  RopeConfig full, sliding;
  full.type = RopeType::kProportional;
  full.theta = 1e6;
  full.rotary_dim = dims[0];
  full.turned_pairs = dims[0] / 2 / kTurnedPart;
  sliding.rotary_dim = dims[1];
  full.max_positions = sliding.max_positions = config->max_positions;
  config->ropes = {full, sliding};
}

void ReadLayers(const JsonFields& root, ModelConfig* config) {
  ReadHeads(root, config);
  ReadSharing(root, config);
  ReadPositions(root, config);
}

void ReadMixture(const JsonFields& root, ModelConfig* config) {
  if (!root.Boolean("enable_moe_block", false)) return;
  constexpr int64_t kMostExperts = 1 << 16, kMostInner = 1 << 24;
  ExpertRules& experts = config->experts;
  experts.num_experts = static_cast<int32_t>(root.Integer("num_experts", 1, kMostExperts));
  experts.per_token = static_cast<int32_t>(root.Integer("top_k_experts", 1, experts.num_experts));
  experts.inner_size = static_cast<int32_t>(root.Integer("moe_intermediate_size", 1, kMostInner));
  experts.normalised = true;
  experts.beside_mlp = true;
  experts.layers.assign(config->layers.size(), true);
}

void Read(const JsonFields& root, ModelConfig* config) {
  // "vision": tokens of images see each other, and those of text only what is before them.
  if (root.Has("use_bidirectional_attention") && root.Text("use_bidirectional_attention") != "vision")
    root.RefuseUnsupported("use_bidirectional_attention", "is supported where it is null or \"vision\"");
  config->embedding_multiplier = std::sqrt(static_cast<double>(config->hidden_size));
  if (root.Has("final_logit_softcapping")) config->logit_soft_cap = ReadSoftCap(root, "final_logit_softcapping", {});
  constexpr int64_t kAbsentInput = 256, kAbsentVocabulary = 262144;
  if (!root.IsNull("hidden_size_per_layer_input")) {
    LayerInputRules& inputs = config->layer_inputs;
    inputs.size = static_cast<int32_t>(root.Integer("hidden_size_per_layer_input", 0, kMostInput, kAbsentInput));
    inputs.vocabulary = static_cast<int32_t>(root.Integer("vocab_size_per_layer_input", 1, 1 << 24, kAbsentVocabulary));
  }
  ReadMixture(root, config);
}

constexpr Family TextRow() {
  Family row = GemmaWithLayerInputs("gemma4_text");
  row.layer.factor = "layer_scalar";
  row.experts.router = "router.proj";
  row.experts.router_scale = "router.scale";
  row.experts.expert_scale = "router.per_expert_scale";
  row.experts.packed_gate_up = "experts.gate_up_proj";
  row.experts.packed_down = "experts.down_proj";
  row.experts.packed_as_linear = true;
  row.experts.input_norm = "pre_feedforward_layernorm_2";
  row.experts.output_norm = "post_feedforward_layernorm_2";
  row.experts.mlp_norm = "post_feedforward_layernorm_1";
  row.absent_window_pattern = 6;
  row.absent_max_positions = 131072;
  row.absent_vocabulary = 262144;
  row.read_ropes = &ReadLayers;
  row.read = &Read;
  return row;
}

}  // namespace

const Family& Gemma4() {
  static constexpr Family family = TextRow();
  return family;
}

const Family& Gemma4WithImages() {
  static constexpr Family family = GemmaWithImages(TextRow(), "gemma4");
  return family;
}

}  // namespace headscope::model
