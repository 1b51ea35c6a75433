// SPDX-License-Identifier: Apache-2.0
// A mixture of experts: a router chooses a few MLPs for every token and adds what they give. One expert after the
// other, each on the tokens that chose it: right, and not fast.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/model_config.h"
#include "network/weights.h"

namespace headscope::model {

// The experts that each row of x [rows, hidden] is given to, and with which weights.
struct Routing {
  at::Tensor experts;  // [rows, per_token], int64
  at::Tensor weights;  // [rows, per_token], fp32
};
Routing Route(const at::Tensor& x, const ExpertWeights& w, const ExpertRules& rules);

// x [rows, hidden] to what the MLP adds, [rows, hidden], x's type; `routed`: what the router reads, mostly x as well.
at::Tensor MixExperts(const at::Tensor& x, const at::Tensor& routed, const ExpertWeights& w, const ExpertRules& rules,
                      Activation activation);

}  // namespace headscope::model
