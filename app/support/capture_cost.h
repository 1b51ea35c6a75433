// SPDX-License-Identifier: Apache-2.0
// What a capture's model computes and holds, from its configuration alone: layer by layer, since layers may differ in
// heads, widths, windows and experts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/device.h"
#include "base/element_type.h"
#include "model/capture_points.h"
#include "model/model_config.h"
#include "model/model_session.h"

namespace headscope::app {

struct CaptureLengths {
  int64_t prompt_tokens = 0, decode_tokens = 0;
  int32_t chunk_tokens = 0;                          // of the prompt's passes; 0: as the model chooses them
  bool on_gpu = false;                               // all layers on one GPU, with dense attention
  int64_t recorded_bytes = 0;                        // of a token in one layer (capture::LayerBytesOfToken)
  std::span<const model::CapturePoint> points = {};  // recorded beside q, k and v; for the call
  std::span<const Device> layer_devices = {};        // where they are several; for the call
  std::optional<int32_t> last_layer = {};            // as a CapturePlan's
};

struct CaptureCost {
  // Floating-point operations of the prompt, in the layers that are run: every weight that a token meets twice (of
  // experts those that are chosen), and q k^T and p v over the pairs that rows see.
  double prompt_operations = 0;
  // What the decode steps read: the weights that a token meets, and the keys and values that their rows see.
  double decode_bytes = 0;
  // Weights and KV cache of the layers that are run and the widest pass, where the model runs: on all of its devices
  // together.
  int64_t model_bytes = 0;
};

// Bytes of one number of weights and activations, as SessionOptions::dtype decides it.
int64_t NumberBytes(const model::CheckpointSummary& summary, std::optional<ElementType> compute, const Device& device);

// Whether the layers of a model lie on more than one device: none of them has all of its memory, or says by its own
// speed how long the model takes.
bool IsSpread(std::span<const Device> layers);

CaptureCost CostOf(const model::ModelConfig& config, const model::CheckpointSummary& summary,
                   const CaptureLengths& lengths, int64_t number_bytes);

}  // namespace headscope::app
