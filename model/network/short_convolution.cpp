// SPDX-License-Identifier: Apache-2.0
#include "network/short_convolution.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "network/activations.h"

namespace headscope::model {

at::Tensor Convolved(const at::Tensor& channels, const Projection& weights, at::Tensor* tail) {
  const int64_t before = weights.weight.size(2) - 1;
  const at::Tensor now = channels.t();
  const at::Tensor past = tail->defined() ? *tail : at::zeros({now.size(0), before}, now.options());
  const at::Tensor all = at::cat({past, now}, 1);
  *tail = all.narrow(1, all.size(1) - before, before).contiguous();
  std::optional<at::Tensor> bias;
  if (weights.bias.defined()) bias = weights.bias;
  return at::conv1d(all.unsqueeze(0), weights.weight, bias, 1, at::IntArrayRef{0}, 1, all.size(0)).squeeze(0).t();
}

at::Tensor ShortConvolution(const at::Tensor& x, const MixerWeights& w, at::Tensor* tail) {
  const int64_t hidden = x.size(1);
  const at::Tensor parts = Apply(w.in, x);
  const auto part = [&](int64_t which) { return parts.narrow(1, which * hidden, hidden); };
  return part(1) * Convolved(part(0) * part(2), w.convolution, tail);
}

}  // namespace headscope::model
