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

// The experts of a layer (ExpertRules in model_config.h).
struct ExpertWeights {
  Projection router;                                      // [experts, hidden]
  at::Tensor correction;                                  // [experts], fp32
  at::Tensor router_scale;                                // [hidden]
  at::Tensor expert_scale;                                // [experts], fp32
  NormWeights input_norm, output_norm, mlp_norm;          // of experts beside an MLP
  std::vector<Projection> gate_up;                        // [experts]; rows: gate, up
  std::vector<Projection> down;                           // [experts]
  Projection shared_gate_up, shared_down, shared_weight;  // undefined where there is no such
};

// DeepSeek's projections by way of latents (LatentRules).
struct LatentWeights {
  Projection q_a, q_b;  // q_a undefined: q_b takes x itself
  NormWeights q_norm;
  Projection kv_a, kv_b;
  NormWeights kv_norm;
};

// By which a layer chooses the keys of its rows (IndexRules).
struct IndexWeights {
  Projection q;  // of q's latent
  Projection k;
  NormWeights k_norm;
  Projection weights;  // [heads, hidden]: what each of its heads counts
};

// A token mixer in place of attention (MixerRules); of its two kinds, `in` belongs to the short convolution alone, and
// the others, but for the convolution's weight, to the delta rule.
struct MixerWeights {
  Projection qkvz, ba;     // rows: for each key head its query, its key, its values and their gates; b and a
  Projection in;           // rows: the gate before the convolution, the one behind it, its input
  Projection convolution;  // [channels, 1, kernel], of q, k and v, or of the hidden state
  at::Tensor decay;        // [num_value_heads], fp32, the logarithm
  at::Tensor step_bias;    // [num_value_heads]
  NormWeights norm;
};

// How a layer adds what it gets beside its hidden state (LayerInputRules).
struct LayerInputWeights {
  Projection gate, output;
  NormWeights output_norm;
};

// A low-rank layer beside attention (ModelConfig::laurel_rank).
struct LaurelWeights {
  Projection left, right;
  NormWeights norm;
};

// What predicts and corrects a token's hidden states (AltUpRules).
struct AltUpWeights {
  Projection router;  // [inputs, hidden]
  NormWeights router_norm;
  Projection prediction;    // [inputs * inputs, inputs]
  Projection correction;    // [inputs, inputs]
  at::Tensor output_scale;  // [hidden]
};

struct LayerWeights {
  NormWeights input_norm;
  Projection qkv;  // rows: all q heads, and as far as the layer has them all k heads, all v heads, all gates of outputs
  LatentWeights latent;
  IndexWeights index;
  MixerWeights mixer;
  NormWeights q_norm, k_norm;
  Projection output;
  NormWeights attention_output_norm;
  NormWeights mlp_norm;
  bool has_gate = true;
  Projection gate_up;  // rows: gate, up; without a gate: up
  Projection down;
  ExpertWeights experts;  // without any, the MLP is gate_up and down
  NormWeights mlp_output_norm;
  LayerInputWeights layer_input;
  at::Tensor factor;  // [1]
  LaurelWeights laurel;
  AltUpWeights altup;
};

struct ModelWeights {
  at::Tensor embedding;           // [vocabulary, embedding_size]
  at::Tensor position_embedding;  // [positions, hidden], from the row of position 0 on
  at::Tensor token_type;          // [hidden], of the first kind of text
  NormWeights embedding_norm;
  Projection embedding_in, embedding_out;
  at::Tensor head;  // the same tensor when tied
  NormWeights final_norm;
  at::Tensor layer_embedding;  // [vocabulary, num_layers * size], of LayerInputRules
  Projection layer_projection;
  NormWeights layer_projection_norm;
  std::vector<Projection> spread, gather;  // [inputs - 1] of AltUpRules: to the further hidden states and back
  std::vector<LayerWeights> layers;
};

// Every tensor is checked against the shape that config.json implies before memory for it is taken, and every tensor of
// the checkpoint must be used. What attention must know of a layer and stands among the weights goes into `config`.
// Throws BadInputError; CancelledError.
// layer_devices: one for each of the first layers, which alone are read; what lies before and behind them is with the
// first. A head that is not the embeddings is read for logits alone.
ModelWeights LoadWeights(Checkpoint* checkpoint, ModelConfig* config, at::ScalarType type,
                         const std::vector<at::Device>& layer_devices, bool with_logits,
                         const ProgressFunction& progress, const std::stop_token& stop);

}  // namespace headscope::model
