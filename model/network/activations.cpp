// SPDX-License-Identifier: Apache-2.0
#include "network/activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include <numbers>
#include <stdexcept>

#include "network/linear.h"

namespace headscope::model {
namespace {

// What is above that share of a row's numbers, if those were normally distributed.
at::Tensor AboveShare(const at::Tensor& rows, double share) {
  const double deviations = at::erfinv(at::full({}, 2 * share - 1, at::kDouble)).item<double>() * std::numbers::sqrt2;
  const at::Tensor mean = rows.mean(-1, /*keepdim=*/true);
  return at::relu(rows - (mean + rows.std(-1, /*unbiased=*/false, /*keepdim=*/true) * deviations));
}

}  // namespace

at::Tensor Activated(Activation activation, const at::Tensor& x) {
  constexpr double kSigmoidGain = 1.702;
  switch (activation) {
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kGeluSigmoid:
      return x * at::sigmoid(x * kSigmoidGain);
    case Activation::kRelu:
      return at::relu(x);
  }
  throw std::logic_error("an activation without a case");
}

at::Tensor Apply(const Projection& projection, const at::Tensor& x) {
  return Linear(x, projection.weight, projection.bias);
}

at::Tensor GatedMlp(const at::Tensor& x, const Projection& gate_up, const Projection& down, Activation activation,
                    double sparsity) {
  const at::Tensor both = Apply(gate_up, x);
  const int64_t inner = both.size(-1) / 2;
  at::Tensor gate = both.narrow(-1, 0, inner);
  if (sparsity > 0) gate = AboveShare(gate, sparsity);
  return Apply(down, Activated(activation, gate).mul_(both.narrow(-1, inner, inner)));
}

}  // namespace headscope::model
