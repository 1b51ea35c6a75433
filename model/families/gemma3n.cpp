// SPDX-License-Identifier: Apache-2.0
// Gemma 3n: several hidden states of a token (AltUp), a low-rank layer beside attention (LAuReL), numbers of every
// token for each layer (per-layer embeddings), gates of which only the largest pass (activation sparsity), and last
// layers that read keys and values of earlier ones. Of the models that see images and hear as well, what they do with
// text.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "families/common_keys.h"
#include "families/gemma_layout.h"

namespace headscope::model {
namespace {

constexpr int64_t kMostSize = 1 << 24;

void ReadLayers(const JsonFields& root, ModelConfig* config) {
  constexpr int64_t kAbsentShared = 15;
  RefuseEndlessWindow(root);
  for (AttentionLayer& layer : config->layers) layer.scale = 1;
  ReadKvSharing(root, kAbsentShared, config);
  ReadRopesByWindow(root, {.absent_theta = 1e6}, {.theta = "rope_local_base_freq", .absent_theta = 1e4}, config);
}

// One size for all layers, or one for each.
void ReadInnerSizes(const JsonFields& root, ModelConfig* config) {
  constexpr std::string_view kKey = "intermediate_size";
  constexpr int64_t kAbsent = 16384;
  const std::optional<JsonValue> given = root.Find(kKey);
  if (!given || !given->IsArray()) {
    config->intermediate_size = static_cast<int32_t>(root.Integer(kKey, 1, kMostSize, kAbsent));
    return;
  }
  given->ForEachElement([&](const JsonValue& element) {
    const std::optional<int64_t> size = element.IntegerIn(1, kMostSize);
    if (!size) root.RefuseField(kKey, "holds " + element.Shortened(), "its numbers must be 1 to 16777216");
    config->inner_sizes.push_back(static_cast<int32_t>(*size));
  });
  if (config->inner_sizes.size() != config->layers.size())
    root.RefuseField(kKey, "does not have one entry for each layer", "correct it");
  config->intermediate_size = *std::ranges::max_element(config->inner_sizes);
}

void ReadGateSparsity(const JsonFields& root, ModelConfig* config) {
  constexpr std::string_view kKey = "activation_sparsity_pattern";
  constexpr size_t kAbsentLayers = 10;
  constexpr double kAbsentShare = 0.95;
  const size_t layers = config->layers.size();
  std::vector<double>& shares = config->gate_sparsity;
  if (root.Has(kKey)) {
    root.Array(kKey).ForEachElement([&](const JsonValue& element) {
      const double share = element.IsNumber() ? element.Number() : -1;
      if (!(share >= 0 && share < 1))
        root.RefuseField(kKey, "holds " + element.Shortened(), "its numbers must be from 0 to below 1");
      shares.push_back(share);
    });
    if (shares.size() != layers) root.RefuseField(kKey, "does not have one entry for each layer", "correct it");
  } else if (layers > kAbsentLayers) {
    shares.assign(layers, 0);
    std::fill_n(shares.begin(), kAbsentLayers, kAbsentShare);
  }
  if (std::ranges::all_of(shares, [](double share) { return share == 0; })) shares.clear();
}

void Read(const JsonFields& root, ModelConfig* config) {
  constexpr int64_t kMostInputs = 64, kMostInput = 1 << 20, kMostRank = 1 << 20;
  config->embedding_multiplier = std::sqrt(static_cast<double>(config->hidden_size));
  if (!root.IsNull("final_logit_softcapping"))
    config->logit_soft_cap = ReadSoftCap(root, "final_logit_softcapping", 30.0);
  ReadInnerSizes(root, config);
  ReadGateSparsity(root, config);
  LayerInputRules& inputs = config->layer_inputs;
  inputs.size = static_cast<int32_t>(root.Integer("hidden_size_per_layer_input", 1, kMostInput, 256));
  inputs.vocabulary = static_cast<int32_t>(root.Integer("vocab_size_per_layer_input", 1, kMostSize, 262144));
  // In the models that see and hear, ids behind those are of images and sound.
  inputs.others_as_first = config->family->text_model.empty();
  AltUpRules& altup = config->altup;
  altup.inputs = static_cast<int32_t>(root.Integer("altup_num_inputs", 1, kMostInputs, 4));
  altup.active = static_cast<int32_t>(root.Integer("altup_active_idx", 0, altup.inputs - 1, 0));
  altup.scaled_output = root.Boolean("altup_correct_scale", true);
  config->laurel_rank = static_cast<int32_t>(root.Integer("laurel_rank", 1, kMostRank, 64));
}

constexpr Family TextRow() {
  Family row = GemmaWithLayerInputs("gemma3n_text");
  row.layer.laurel_left = "laurel.linear_left";
  row.layer.laurel_right = "laurel.linear_right";
  row.layer.laurel_norm = "laurel.post_laurel_norm";
  row.altup = {.spread = "model.altup_projections.",
               .gather = "model.altup_unembed_projections.",
               .router = "altup.modality_router",
               .router_norm = "altup.router_norm",
               .prediction = "altup.prediction_coefs",
               .correction = "altup.correction_coefs",
               .output_scale = "altup.correct_output_scale"};
  row.keys.inner = {};
  row.absent_inner_of_four = true;  // until ReadInnerSizes says more
  row.absent_window_pattern = 5;
  row.absent_max_positions = 32768;
  row.absent_num_kv_heads = 2;
  row.absent_vocabulary = 262400;
  row.read_ropes = &ReadLayers;
  row.read = &Read;
  return row;
}

}  // namespace

const Family& Gemma3n() {
  static constexpr Family family = TextRow();
  return family;
}

const Family& Gemma3nWithImages() {
  static constexpr Family family = GemmaWithImages(TextRow(), "gemma3n");
  return family;
}

}  // namespace headscope::model
