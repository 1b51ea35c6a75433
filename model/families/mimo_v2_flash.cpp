// SPDX-License-Identifier: Apache-2.0
// MiMo V2 Flash: values narrower than keys and multiplied by a factor; layers with a window have twice the KV heads and
// a learned sink; GLM 4.5's experts without the one that every token sees.
#include <cstdint>
#include <vector>

#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/deepseek.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

constexpr int64_t kMostDim = 4096;
constexpr int64_t kMostWindow = INT32_MAX;

// Which layers have a window; without layer_types all but the first and every sixth. Then their positions.
void ReadKindsAndRopes(const JsonFields& root, ModelConfig* config) {
  std::vector<AttentionLayer>& layers = config->layers;
  // The published file counts the tokens before a row's own.
  const auto window =
      static_cast<int32_t>(root.Has("sliding_window_size") ? root.Integer("sliding_window_size", 1, kMostWindow - 1) + 1
                                                           : root.Integer("sliding_window", 1, kMostWindow, 129));
  std::vector<bool> slides(layers.size());
  for (size_t layer = 0; layer < layers.size(); ++layer) slides[layer] = layer != 0 && (layer + 1) % 6 != 0;
  if (root.Has("layer_types"))
    slides = ReadSecondKind(root, "layer_types", layers.size(), "full_attention", "sliding_attention");
  const auto v_head_dim = static_cast<int32_t>(root.Integer("v_head_dim", 1, kMostDim, 128));
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    layers[layer].v_head_dim = v_head_dim;
    if (!slides[layer]) continue;
    layers[layer].window = window;
    layers[layer].num_kv_heads = 2 * config->num_kv_heads;
    if (config->num_qo_heads % layers[layer].num_kv_heads != 0)
      root.RefuseField("num_key_value_heads", "twice of it does not divide num_attention_heads",
                       "correct one of the two");
  }
  constexpr double kPart = 0.334;
  const RopeKeys full = {.absent_theta = 5e6, .absent_part = kPart};
  const RopeKeys sliding = {.theta = "swa_rope_theta", .absent_theta = 1e4, .absent_part = kPart};
  if (root.Has("rope_parameters")) {
    ReadRopesByWindow(root, full, sliding, config);
    return;
  }
  for (const RopeKeys& keys : {full, sliding})
    config->ropes.push_back(ReadRopeConfig(root, keys, config->head_dim, config->max_positions));
  for (AttentionLayer& layer : layers) layer.rope = layer.window > 0 ? 1 : 0;
}

void Read(const JsonFields& root, ModelConfig* config) {
  ReadExperts(root, "n_routed_experts", "moe_intermediate_size", config);
  ExpertRules& experts = config->experts;
  ReadExpertLayers(root, 1, &experts.layers);
  ReadExpertGroups(root, config);
  experts.wide_router = true;
  experts.factor = root.IsNull("routed_scaling_factor") ? 1.0 : root.Number("routed_scaling_factor", 1.0);
  config->value_multiplier = root.IsNull("attention_value_scale") ? 1.0 : root.Number("attention_value_scale", 0.707);
}

}  // namespace

const Family& MiMoV2Flash() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "mimo_v2_flash";
    row.layer.sinks = "self_attn.attention_sink_bias";
    row.sinks_of_windows = true;
    row.experts = NumberedExperts();
    row.experts.correction = "mlp.gate.e_score_correction_bias";
    row.skipped = {"model.mtp."};
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.window = WindowRule::kOwn;
    row.absent_norm_eps = 1e-5;
    row.absent_head_dim = 192;
    row.absent_num_kv_heads = 4;
    row.absent_max_positions = 131072;
    row.read_ropes = &ReadKindsAndRopes;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
