// SPDX-License-Identifier: Apache-2.0
// What MLPs are made of.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/model_config.h"
#include "network/weights.h"

namespace headscope::model {

at::Tensor Activated(Activation activation, const at::Tensor& x);
// x [rows, in] to [rows, out].
at::Tensor Apply(const Projection& projection, const at::Tensor& x);
// down(activation(gate(x)) * up(x)), where gate_up's rows are those of both.
at::Tensor GatedMlp(const at::Tensor& x, const Projection& gate_up, const Projection& down, Activation activation,
                    double sparsity = 0);

}  // namespace headscope::model
