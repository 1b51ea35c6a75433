// SPDX-License-Identifier: Apache-2.0
#include "families/common_keys.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "model/model_config.h"

namespace headscope::model {

void ReadRopesByWindow(const JsonFields& root, const RopeKeys& full, const RopeKeys& sliding, ModelConfig* config) {
  if (root.Has("rope_parameters")) {
    config->ropes = {ReadRopeConfig(root, full, config->head_dim, config->max_positions, "full_attention"),
                     ReadRopeConfig(root, sliding, config->head_dim, config->max_positions, "sliding_attention")};
  } else {
    RopeConfig local;
    local.theta = root.Number(sliding.theta, sliding.absent_theta);
    if (!IsTheta(local.theta)) root.RefuseField(sliding.theta, "is not between 1 and 1e30", "correct it");
    local.max_positions = config->max_positions;
    config->ropes = {ReadRopeConfig(root, full, config->head_dim, config->max_positions), local};
    config->ropes[1].rotary_dim = config->ropes[0].rotary_dim;
  }
  for (AttentionLayer& layer : config->layers) layer.rope = layer.window > 0 ? 1 : 0;
}

void TurnOnlyWindows(ModelConfig* config) {
  for (AttentionLayer& layer : config->layers) layer.rope = layer.window > 0 ? 0 : -1;
}

double ReadSoftCap(const JsonFields& root, std::string_view key, std::optional<double> absent) {
  const double cap = root.Number(key, absent);
  if (cap < 0) root.RefuseField(key, "must not be negative", "correct it");
  return cap;
}

double CohereTheta(const JsonFields& root, double absent) {
  constexpr double kOfVersion4 = 10000;
  return !root.Has("rope_parameters") && root.Text("transformers_version", "").starts_with("4.") ? kOfVersion4 : absent;
}

void ReadExperts(const JsonFields& root, std::string_view count_key, std::string_view inner_key, ModelConfig* config) {
  constexpr int64_t kMostExperts = 1 << 16, kMostInner = 1 << 24;
  ExpertRules& experts = config->experts;
  // transformers 5 writes the same number under one name for all families.
  const std::string_view written = root.Has(count_key) ? count_key : "num_local_experts";
  experts.num_experts = static_cast<int32_t>(root.Integer(root.Has(written) ? written : count_key, 1, kMostExperts));
  experts.per_token = static_cast<int32_t>(root.Integer("num_experts_per_tok", 1, kMostExperts));
  if (experts.per_token > experts.num_experts) {
    root.RefuseField("num_experts_per_tok", "is more than the " + std::to_string(experts.num_experts) + " experts",
                     "correct it");
  }
  experts.inner_size = static_cast<int32_t>(root.Integer(inner_key, 1, kMostInner));
  experts.layers.assign(config->layers.size(), true);
}

void ReadTurnedLayers(const JsonFields& root, bool empty_is_absent, ModelConfig* config) {
  std::vector<AttentionLayer>& layers = config->layers;
  if (root.Has("no_rope_layers") && !(empty_is_absent && root.Array("no_rope_layers").size() == 0)) {
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
}

std::vector<bool> ReadSecondKind(const JsonFields& root, std::string_view key, size_t num_layers,
                                 std::string_view first, std::string_view second) {
  const JsonValue kinds = root.Array(key);
  if (kinds.size() != num_layers) root.RefuseField(key, "does not have one entry for each layer", "correct it");
  std::vector<bool> is_second;
  kinds.ForEachElement([&](const JsonValue& kind) {
    is_second.push_back(kind.IsString() && kind.Text() == second);
    if (!is_second.back() && !(kind.IsString() && kind.Text() == first)) {
      root.RefuseUnsupported(key, kind.Shortened() + " is not supported",
                             std::string(first) + " and " + std::string(second) + " are");
    }
  });
  return is_second;
}

void ReadSparseLayers(const JsonFields& root, ModelConfig* config) {
  std::vector<bool>& layers = config->experts.layers;
  const auto step = static_cast<size_t>(root.Integer("decoder_sparse_step", 1, INT32_MAX, 1));
  for (size_t layer = 0; layer < layers.size(); ++layer) layers[layer] = (layer + 1) % step == 0;
  if (!root.Has("mlp_only_layers")) return;
  root.Array("mlp_only_layers").ForEachElement([&](const JsonValue& number) {
    const std::optional<int64_t> layer = number.IntegerIn(0, INT32_MAX);
    if (!layer) root.RefuseField("mlp_only_layers", "holds " + number.Shortened(), "its numbers must be layers");
    if (*layer < static_cast<int64_t>(layers.size())) layers[static_cast<size_t>(*layer)] = false;
  });
}

}  // namespace headscope::model
