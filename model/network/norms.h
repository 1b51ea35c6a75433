// SPDX-License-Identifier: Apache-2.0
// The norms of all families, in the order of operations of transformers' modules: made in fp32, back in x's type.
#pragma once

#include <ATen/core/Tensor.h>

#include "families/family.h"
#include "network/weights.h"

namespace headscope::model {

// Over the last dimension. Without weights: x.
at::Tensor Normalised(NormKind kind, const at::Tensor& x, const NormWeights& norm, double eps);

// x / rms(x) over the last dimension.
at::Tensor RmsNormWithoutWeight(const at::Tensor& x, double eps);

}  // namespace headscope::model
