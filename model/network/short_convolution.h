// SPDX-License-Identifier: Apache-2.0
// Convolutions over the newest few tokens: the one before a delta rule, and the whole layer that LFM2 has in place of
// attention.
#pragma once

#include <ATen/core/Tensor.h>

#include "network/weights.h"

namespace headscope::model {

// channels [rows, channels], each by itself over the newest `kernel` tokens; those before the first are zeros. `tail`
// [channels, kernel - 1]: what the next pass still sees of the tokens so far; undefined before the first.
at::Tensor Convolved(const at::Tensor& channels, const Projection& weights, at::Tensor* tail);

// x [rows, hidden]: one third of its projection gates the convolution's input, another what comes out of it. Returns
// [rows, hidden], what the output projection gets.
at::Tensor ShortConvolution(const at::Tensor& x, const MixerWeights& w, at::Tensor* tail);

}  // namespace headscope::model
