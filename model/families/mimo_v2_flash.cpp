// SPDX-License-Identifier: Apache-2.0
// MiMo V2 Flash: values narrower than keys and multiplied by a factor; layers with a window have more KV heads and a
// learned sink; GLM 4.5's experts without the one that every token sees. Published files mark their layers by lists of
// 0 and 1 and have names of their own for what differs in layers with a window; transformers writes other ones.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/deepseek.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

constexpr int64_t kMostDim = 4096;
constexpr int64_t kMostWindow = INT32_MAX;

// A published list of 0 and 1, one for each layer, in place of `marks`; beside a list of names `other`, from which
// those were read, it must say the same.
void ReadMarks(const JsonFields& root, std::string_view key, std::string_view other, std::vector<bool>* marks) {
  if (!root.Has(key)) return;
  const JsonValue list = root.Array(key);
  if (list.size() != marks->size()) root.RefuseField(key, "does not have one entry for each layer", "correct it");
  std::vector<bool> given;
  list.ForEachElement([&](const JsonValue& mark) {
    const std::optional<int64_t> number = mark.IntegerIn(0, 1);
    if (!number) root.RefuseField(key, "holds " + mark.Shortened(), "its entries must be 0 and 1");
    given.push_back(*number == 1);
  });
  if (root.Has(other) && given != *marks)
    root.RefuseField(key, "does not say the same as " + std::string(other), "correct one of the two");
  *marks = given;
}

// Which layers have sinks is the same in all files.
void RequireSinksOfWindows(const JsonFields& root) {
  for (const auto& [key, has] :
       {std::pair("add_swa_attention_sink_bias", true), {"add_full_attention_sink_bias", false}}) {
    if (root.Boolean(key, has) == has) continue;
    root.RefuseField(key, std::string("must be ") + (has ? "true" : "false"),
                     "use a model that has sinks in its layers with a window alone");
  }
}

// Published files say of layers with a window what must be so for this network.
void RequireSame(const JsonFields& root, std::string_view key, int64_t value) {
  constexpr int64_t kMost = INT32_MAX;
  if (!root.Has(key) || root.Integer(key, 1, kMost) == value) return;
  root.RefuseField(key, "must be " + std::to_string(value) + ", as in the layers without a window",
                   "use a model whose layers have heads of one size");
}

// Which layers have a window; where the file does not say, all but the first and every sixth. Then their positions.
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
  ReadMarks(root, "hybrid_layer_pattern", "layer_types", &slides);
  const auto v_head_dim = static_cast<int32_t>(root.Integer("v_head_dim", 1, kMostDim, 128));
  RequireSame(root, "swa_num_attention_heads", config->num_qo_heads);
  RequireSame(root, "swa_head_dim", config->head_dim);
  RequireSame(root, "swa_v_head_dim", v_head_dim);
  const std::string_view kv_key = "swa_num_key_value_heads";
  const bool own_kv = root.Has(kv_key);
  const auto kv_heads =
      static_cast<int32_t>(own_kv ? root.Integer(kv_key, 1, config->num_qo_heads) : int64_t{2} * config->num_kv_heads);
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    layers[layer].v_head_dim = v_head_dim;
    if (!slides[layer]) continue;
    layers[layer].window = window;
    layers[layer].num_kv_heads = kv_heads;
    if (config->num_qo_heads % kv_heads != 0)
      root.RefuseField(own_kv ? kv_key : "num_key_value_heads",
                       std::string(own_kv ? "" : "twice of it ") + "does not divide num_attention_heads",
                       "correct one of the two");
  }
  constexpr double kPart = 0.334;
  const RopeKeys full = {.absent_theta = 5e6, .absent_part = kPart};
  const RopeKeys sliding = {.theta = "swa_rope_theta", .absent_theta = 1e4, .absent_part = kPart};
  ReadRopesByWindow(root, full, sliding, config);
}

// Published files have a name of their own for it.
void ReadNormEps(const JsonFields& root, ModelConfig* config) {
  constexpr std::string_view kKey = "layernorm_epsilon";
  if (!root.Has(kKey)) return;
  const double eps = root.Number(kKey);
  if (!(eps > 0)) root.RefuseField(kKey, "must be positive", "correct it");
  if (root.Has("rms_norm_eps") && eps != config->norm_eps)
    root.RefuseField(kKey, "is not rms_norm_eps", "correct one of the two");
  config->norm_eps = eps;
}

void Read(const JsonFields& root, ModelConfig* config) {
  RequireSinksOfWindows(root);
  ReadNormEps(root, config);
  ReadExperts(root, "n_routed_experts", "moe_intermediate_size", config);
  ExpertRules& experts = config->experts;
  ReadExpertLayers(root, 1, &experts.layers);
  ReadMarks(root, "moe_layer_freq", "mlp_layer_types", &experts.layers);
  ReadExpertGroups(root, {.factor = {}, .groups = 1, .kept = 1}, config);
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
