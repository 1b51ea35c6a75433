// SPDX-License-Identifier: Apache-2.0
// What the rows of deepseek_v2, deepseek_v3 and kimi_k2 begin with, and the keys that they share: attention by way of
// latents, and experts of which one is seen by every token.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "families/common_keys.h"
#include "families/family_list.h"

namespace headscope::model {

// What config.json means by not naming how experts are chosen: as the family's program has it, or nothing, where none
// is known and the file must say.
struct AbsentRouting {
  std::optional<double> factor;         // of what experts give
  std::optional<int64_t> groups, kept;  // of experts
};

constexpr Family DeepSeekLayout(std::string_view model_type) {
  Family row = LlamaLayout();
  row.model_type = model_type;
  LayerNames& layer = row.layer;
  layer.q_a = "self_attn.q_a_proj";
  layer.q_a_norm = "self_attn.q_a_layernorm";
  layer.q_b = "self_attn.q_b_proj";
  layer.kv_a = "self_attn.kv_a_proj_with_mqa";
  layer.kv_a_norm = "self_attn.kv_a_layernorm";
  layer.kv_b = "self_attn.kv_b_proj";
  row.experts = NumberedExperts();
  row.experts.shared_gate = "mlp.shared_experts.gate_proj";
  row.experts.shared_up = "mlp.shared_experts.up_proj";
  row.experts.shared_down = "mlp.shared_experts.down_proj";
  row.qkv_layout = QkvLayout::kLatent;
  row.output_bias = BiasRule::kByAttentionBias;
  row.rope_interleaved = true;
  row.keys.kv_heads = row.keys.head_dim = {};
  row.absent_head_dim = 2;  // until the keys of latents say more
  row.absent_max_positions = 2048;
  return row;
}

// Positions of the last components of q and k, and the layers' facts.
void ReadLatentRopes(const JsonFields& root, ModelConfig* config);
// Experts, but for how they are chosen.
void ReadSharedExperts(const JsonFields& root, std::optional<double> absent_factor, ModelConfig* config);
// Which layers have experts: those after the first, `absent` where the file does not say how many those are, or as
// later files name each of them.
void ReadExpertLayers(const JsonFields& root, std::optional<int64_t> absent, std::vector<bool>* layers);
// How experts are chosen by sigmoids, and the best groups of them.
void ReadExpertGroups(const JsonFields& root, const AbsentRouting& absent, ModelConfig* config);
// Those of deepseek_v3 and what is read after it: experts that are chosen by sigmoids with a correction.
void ReadSigmoidRouter(const JsonFields& root, const AbsentRouting& absent, ModelConfig* config);
// After transformers' DeepseekV3Config.
constexpr AbsentRouting kRoutingOfDeepSeekV3 = {.factor = 2.5, .groups = 8, .kept = 4};

// The row of deepseek_v3, but for its own keys, and of what differs from it in name and numbers alone.
constexpr Family DeepSeekV3Layout(std::string_view model_type) {
  Family row = DeepSeekLayout(model_type);
  row.experts.correction = "mlp.gate.e_score_correction_bias";
  row.absent_max_positions = 4096;
  row.read_ropes = &ReadLatentRopes;
  return row;
}

}  // namespace headscope::model
