// SPDX-License-Identifier: Apache-2.0
// LFM2: most layers have a short convolution between two gates in place of attention. Published files have names of
// their own for tied embeddings and for the MLP's size, which is rounded up from two thirds of what they say.
#include <algorithm>
#include <cmath>
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

constexpr int64_t kMostInner = 1 << 24;

// Which layers have attention: layer_types, or full_attn_idxs of older files; without either, all.
void ReadKinds(const JsonFields& root, ModelConfig* config) {
  std::vector<AttentionLayer>& layers = config->layers;
  if (root.Has("layer_types")) {
    const std::vector<bool> attends = ReadSecondKind(root, "layer_types", layers.size(), "conv", "full_attention");
    for (size_t layer = 0; layer < layers.size(); ++layer) layers[layer].other_mixer = !attends[layer];
  } else if (root.Has("full_attn_idxs")) {
    config->mixer.kinds_key = "full_attn_idxs";
    for (AttentionLayer& layer : layers) layer.other_mixer = true;
    root.Array("full_attn_idxs").ForEachElement([&](const JsonValue& number) {
      const std::optional<int64_t> layer = number.IntegerIn(0, config->num_layers - 1);
      if (!layer) root.RefuseField("full_attn_idxs", "holds " + number.Shortened(), "its numbers must be layers");
      layers[static_cast<size_t>(*layer)].other_mixer = false;
    });
  }
  for (AttentionLayer& layer : layers) {
    if (!layer.other_mixer) continue;
    layer.num_qo_heads = layer.num_kv_heads = 0;
    layer.qk_norm = QkNorm::kNone;
    layer.rope = -1;
  }
}

int32_t ReadInnerSize(const JsonFields& root) {
  const bool own_name = root.Has("block_ff_dim");
  const std::string_view key = own_name ? "block_ff_dim" : "intermediate_size";
  int64_t size = root.Integer(key, 2, kMostInner, 12288);
  if (root.Boolean("block_auto_adjust_ff_dim", true)) {
    constexpr double kMostFactor = 1024;
    const double factor = root.IsNull("block_ffn_dim_multiplier") ? 1 : root.Number("block_ffn_dim_multiplier", 1.0);
    if (!(factor > 0) || factor > kMostFactor)
      root.RefuseField("block_ffn_dim_multiplier", "is not between 0 and 1024", "correct it");
    const int64_t multiple = root.Integer("block_multiple_of", 1, kMostInner, 256);
    const auto wanted = static_cast<int64_t>(factor * static_cast<double>(2 * size / 3));
    size = root.IsNull("block_ffn_dim_multiplier") ? wanted : (wanted + multiple - 1) / multiple * multiple;
  }
  if (size < 1 || size > kMostInner) root.RefuseField(key, "gives an implausible MLP", "correct it");
  return static_cast<int32_t>(size);
}

void Read(const JsonFields& root, ModelConfig* config) {
  constexpr int64_t kMostKernel = 4096;
  config->tied_embeddings = root.Boolean("tie_embedding", config->tied_embeddings);
  config->intermediate_size = ReadInnerSize(root);
  config->mixer.kind = MixerKind::kShortConvolution;
  config->mixer.bias = root.Boolean("conv_bias", false);
  const int64_t kernel = root.Integer("conv_L_cache", 1, kMostKernel, 3);
  ReadKinds(root, config);
  if (std::ranges::any_of(config->layers, &AttentionLayer::other_mixer))
    config->mixer.kernel = static_cast<int32_t>(kernel);
}

}  // namespace

const Family& Lfm2() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "lfm2";
    row.final_norm = "model.embedding_norm";
    row.layer.input_norm = "operator_norm";
    row.layer.output = "self_attn.out_proj";
    row.layer.q_norm = "self_attn.q_layernorm";
    row.layer.k_norm = "self_attn.k_layernorm";
    row.layer.mlp_norm = "ffn_norm";
    row.layer.gate = "feed_forward.w1";
    row.layer.up = "feed_forward.w3";
    row.layer.down = "feed_forward.w2";
    row.mixer.in = "conv.in_proj";
    row.mixer.convolution = "conv.conv";
    row.mixer.output = "conv.out_proj";
    row.qk_norm = QkNorm::kEachHead;
    row.window = WindowRule::kOwn;
    row.absent_inner_of_four = true;  // until the keys of its own say more
    row.norm_eps_key = "norm_eps";
    row.absent_norm_eps = 1e-5;
    row.activation_key = {};
    row.rope.absent_theta = 1e6;
    row.absent_tied_embeddings = true;
    row.absent_num_kv_heads = 8;
    row.absent_max_positions = 128000;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
