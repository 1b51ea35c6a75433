// SPDX-License-Identifier: Apache-2.0
#include "families/deepseek.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

constexpr int64_t kMostRank = 1 << 20;
constexpr int64_t kMostDim = 2048;

}  // namespace

void ReadExpertLayers(const JsonFields& root, std::optional<int64_t> absent, std::vector<bool>* layers) {
  if (!root.Has("mlp_layer_types")) {
    const auto dense = static_cast<size_t>(root.Integer("first_k_dense_replace", 0, INT32_MAX, absent));
    for (size_t layer = 0; layer < layers->size(); ++layer) (*layers)[layer] = layer >= dense;
    return;
  }
  *layers = ReadSecondKind(root, "mlp_layer_types", layers->size(), "dense", "sparse");
}

void ReadLatentRopes(const JsonFields& root, ModelConfig* config) {
  LatentRules& latent = config->latent;
  const auto size = [&](std::string_view key, int64_t least, int64_t most) {
    return static_cast<int32_t>(root.Integer(key, least, most));
  };
  if (!root.IsNull("q_lora_rank")) latent.q_rank = size("q_lora_rank", 1, kMostRank);
  latent.kv_rank = size("kv_lora_rank", 1, kMostRank);
  latent.nope_dim = size("qk_nope_head_dim", 1, kMostDim);
  latent.rope_dim = size("qk_rope_head_dim", 2, kMostDim);
  latent.bias = root.Boolean("attention_bias", false);
  config->head_dim = latent.nope_dim + latent.rope_dim;
  config->num_kv_heads = config->num_qo_heads;
  RopeConfig rope = ReadRopeConfig(root, {}, latent.rope_dim, config->max_positions);
  rope.first_dim = latent.nope_dim;
  // Positions that are stretched sharpen the scores ("YaRN", arXiv 2309.00071, section 3.4).
  const double sharper = rope.type == RopeType::kYarn && rope.mscale_all_dim != 0 && rope.factor > 1
                             ? 0.1 * rope.mscale_all_dim * std::log(rope.factor) + 1
                             : 1;
  const auto v_head_dim = size("v_head_dim", 1, kMostDim);
  for (AttentionLayer& layer : config->layers) {
    layer.num_kv_heads = config->num_qo_heads;
    layer.head_dim = config->head_dim;
    layer.v_head_dim = v_head_dim;
    layer.scale = sharper * sharper / std::sqrt(static_cast<double>(config->head_dim));
  }
  config->ropes = {rope};
}

void ReadSharedExperts(const JsonFields& root, std::optional<double> absent_factor, ModelConfig* config) {
  ReadExperts(root, "n_routed_experts", "moe_intermediate_size", config);
  ExpertRules& experts = config->experts;
  if (root.Integer("moe_layer_freq", 1, INT32_MAX, 1) != 1)
    root.RefuseUnsupported("moe_layer_freq", "other than 1 is not supported");
  ReadExpertLayers(root, {}, &experts.layers);
  const int64_t shared = root.Integer("n_shared_experts", 1, 1 << 10) * experts.inner_size;
  if (shared > INT32_MAX) root.RefuseField("n_shared_experts", "gives an implausibly large MLP", "correct it");
  experts.shared_size = static_cast<int32_t>(shared);
  experts.wide_router = true;
  experts.factor = root.Number("routed_scaling_factor", absent_factor);
}

}  // namespace headscope::model
