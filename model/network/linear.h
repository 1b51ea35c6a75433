// SPDX-License-Identifier: Apache-2.0
// Products with a weight, of which a forward pass mostly consists.
#pragma once

#include <ATen/core/Tensor.h>

namespace headscope::model {

// x [rows, in] times the transpose of weight [out, in], plus bias [out] where that is defined: [rows, out].
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

// Whether oneDNN multiplies them, and not what LibTorch has for it: for tests.
bool OneDnnTakes(const at::Tensor& x, const at::Tensor& weight);

}  // namespace headscope::model
