// SPDX-License-Identifier: Apache-2.0
// The gated delta rule that stands in place of attention in some layers ("Gated Delta Networks", arXiv 2412.06464,
// equation 10), token by token in fp32 behind a short causal convolution: right, and not fast.
#pragma once

#include <ATen/core/Tensor.h>

#include <stop_token>

#include "model/model_config.h"
#include "network/weights.h"

namespace headscope::model {

// What such a layer remembers of the tokens before a pass; undefined before the first.
struct DeltaState {
  at::Tensor tail;    // what the convolution still sees (short_convolution.h)
  at::Tensor memory;  // [num_value_heads, key_dim, value_dim], fp32
};

// x [rows, hidden], the tokens after those of `state`, which moves on. Returns [rows, num_value_heads, value_dim].
// Throws CancelledError between two tokens once `stop` is requested; the state is then of no use.
at::Tensor GatedDeltaRule(const at::Tensor& x, const MixerWeights& w, const MixerRules& rules, Activation activation,
                          DeltaState* state, const std::stop_token& stop);

// The gate of its output, [rows, num_value_heads, value_dim].
at::Tensor DeltaGate(const at::Tensor& x, const MixerWeights& w, const MixerRules& rules);

}  // namespace headscope::model
