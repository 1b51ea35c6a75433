// SPDX-License-Identifier: Apache-2.0
#include "network/alternating_updates.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>

#include "families/family.h"
#include "network/activations.h"
#include "network/norms.h"

namespace headscope::model {
namespace {

at::Tensor MeanSquare(const at::Tensor& x) {
  return x.square().mean(-1, /*keepdim=*/true);
}

// Projections of `from(i)` beside `first`, each made as long as that.
template <typename From>
at::Tensor WithProjections(const at::Tensor& first, const std::vector<Projection>& projections, From from) {
  constexpr double kLeast = 1e-5;
  const at::Tensor length = MeanSquare(first).sqrt();
  std::vector<at::Tensor> states = {first};
  for (size_t i = 0; i < projections.size(); ++i) {
    const at::Tensor made = Apply(projections[i], from(static_cast<int64_t>(i)));
    states.push_back(made * length / MeanSquare(made).clamp_min(kLeast).sqrt());
  }
  return at::stack(states);
}

// [rows, inputs], from -1 to 1.
at::Tensor Shares(const at::Tensor& x, const AltUpWeights& w, const ModelConfig& config) {
  const at::Tensor read = Normalised(config.family->norm, x, w.router_norm, config.norm_eps);
  return Apply(w.router, read * (1.0 / config.hidden_size)).to(at::kFloat).tanh_().to(x.scalar_type());
}

}  // namespace

at::Tensor SpreadStates(const at::Tensor& x, const std::vector<Projection>& projections) {
  return WithProjections(x, projections, [&](int64_t) { return x; });
}

at::Tensor GatherStates(const at::Tensor& states, const std::vector<Projection>& projections) {
  return WithProjections(states.select(0, 0), projections, [&](int64_t i) { return states.select(0, i + 1); }).mean(0);
}

at::Tensor PredictStates(const at::Tensor& states, const AltUpWeights& w, const ModelConfig& config) {
  const int64_t inputs = config.altup.inputs;
  const at::Tensor shares = Shares(states.select(0, config.altup.active), w, config);
  const at::Tensor mixtures = Apply(w.prediction, shares).view({-1, inputs, inputs}).transpose(1, 2);
  return at::matmul(states.permute({1, 2, 0}), mixtures).permute({2, 0, 1}).contiguous().add_(states);
}

at::Tensor CorrectStates(const at::Tensor& predicted, const at::Tensor& activated, const AltUpWeights& w,
                         const ModelConfig& config) {
  const at::Tensor shares = Apply(w.correction, Shares(activated, w, config)) + 1;
  const at::Tensor difference = activated - predicted.select(0, config.altup.active);
  return difference * shares.t().unsqueeze(-1) + predicted;
}

}  // namespace headscope::model
