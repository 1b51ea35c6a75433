// SPDX-License-Identifier: Apache-2.0
// A checkpoint's tensors on their device, in the form that the forward pass wants: fused where that saves a matrix
// product.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "base/progress.h"
#include "model/checkpoint.h"
#include "model/model_config.h"

namespace headscope::model {

// A bias or norm that the family lacks is an undefined tensor.
struct Projection {
  at::Tensor weight;  // [out, in]
  at::Tensor bias;    // [out]
};

struct NormWeights {
  at::Tensor weight, bias;
  bool defined() const { return weight.defined(); }
};

struct LayerWeights {
  NormWeights input_norm;
  Projection qkv;  // rows: all q heads, all k heads, all v heads
  NormWeights q_norm, k_norm;
  Projection output;
  NormWeights attention_output_norm;
  NormWeights mlp_norm;
  bool has_gate = true;
  Projection gate_up;  // rows: gate, up; without a gate: up
  Projection down;
  NormWeights mlp_output_norm;
};

struct ModelWeights {
  at::Tensor embedding;  // [vocabulary, hidden]
  at::Tensor head;       // the same tensor when tied
  NormWeights final_norm;
  std::vector<LayerWeights> layers;
};

// Every tensor is checked against the shape that config.json implies before memory for it is taken, and every tensor of
// the checkpoint must be used. Throws BadInputError.
ModelWeights LoadWeights(Checkpoint* checkpoint, const ModelConfig& config, at::ScalarType type,
                         const at::Device& device, const ProgressFunction& progress);

}  // namespace headscope::model
