// SPDX-License-Identifier: Apache-2.0
// Keys of config.json that several families have.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "families/family.h"
#include "families/rope_keys.h"

namespace headscope::model {

// Experts by number behind a router.
constexpr ExpertNames NumberedExperts() {
  return {.router = "mlp.gate", .each = "mlp.experts.", .gate = "gate_proj", .up = "up_proj", .down = "down_proj"};
}

// The same as Qwen names them, with one that every token sees through a gate.
constexpr ExpertNames QwenExperts() {
  ExpertNames names = NumberedExperts();
  names.shared_gate = "mlp.shared_expert.gate_proj";
  names.shared_up = "mlp.shared_expert.up_proj";
  names.shared_down = "mlp.shared_expert.down_proj";
  names.shared_weight = "mlp.shared_expert_gate";
  return names;
}

// All readers below throw BadInputError.

// Positions of layers without and with a window: rope_parameters by kind of layer, or in older files rope_scaling of
// the layers without a window, and theta alone for the others, which turn as many components.
void ReadRopesByWindow(const JsonFields& root, const RopeKeys& full, const RopeKeys& sliding, ModelConfig* config);

// Layers without a window turn nothing by position, where the model has layers with one.
void TurnOnlyWindows(ModelConfig* config);

// A cap of scores or logits; not negative.
double ReadSoftCap(const JsonFields& root, std::string_view key, std::optional<double> absent);

// The default theta of Cohere's families: files that transformers 4 wrote leave out 10000, those of later ones
// `absent`.
double CohereTheta(const JsonFields& root, double absent);

// num_experts_per_tok and the number of experts by `count_key`, checked against each other; all layers have experts.
void ReadExperts(const JsonFields& root, std::string_view count_key, std::string_view inner_key, ModelConfig* config);

// Which layers turn q and k, by no_rope_layers (1 where a layer does) or no_rope_layer_interval.
void ReadTurnedLayers(const JsonFields& root, bool empty_is_absent, ModelConfig* config);

// Which layers are of the second of two kinds, by a list that names the kind of each layer.
std::vector<bool> ReadSecondKind(const JsonFields& root, std::string_view key, size_t num_layers,
                                 std::string_view first, std::string_view second);

// Which layers have experts by mlp_only_layers and decoder_sparse_step (Qwen's).
void ReadSparseLayers(const JsonFields& root, ModelConfig* config);

}  // namespace headscope::model
