// SPDX-License-Identifier: Apache-2.0
#include "network/norms.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>

namespace headscope::model {
namespace {

at::Tensor RmsNormalised(const at::Tensor& wide, double eps) {
  return wide.mul(wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_());
}

}  // namespace

at::Tensor Normalised(NormKind kind, const at::Tensor& x, const NormWeights& norm, double eps) {
  if (!norm.defined()) return x;
  const at::Tensor wide = x.to(at::kFloat);
  if (kind == NormKind::kLayer && norm.weight.dim() == 2) {  // [heads, head_dim], of x by heads
    return at::layer_norm(wide, {x.size(-1)}, {}, {}, eps)
        .mul_(norm.weight.to(at::kFloat).unsqueeze(1))
        .to(x.scalar_type());
  }
  if (kind == NormKind::kLayer) {
    return at::layer_norm(wide, {x.size(-1)}, norm.weight.to(at::kFloat),
                          norm.bias.defined() ? norm.bias.to(at::kFloat) : at::Tensor(), eps)
        .to(x.scalar_type());
  }
  const at::Tensor unit = RmsNormalised(wide, eps);
  if (kind == NormKind::kRmsInFp32) return unit.mul(norm.weight.to(at::kFloat)).to(x.scalar_type());
  if (kind == NormKind::kRmsAboutOne) return unit.mul_(norm.weight.to(at::kFloat).add(1)).to(x.scalar_type());
  return unit.to(x.scalar_type()).mul_(norm.weight);
}

at::Tensor RmsNormWithoutWeight(const at::Tensor& x, double eps) {
  return RmsNormalised(x.to(at::kFloat), eps).to(x.scalar_type());
}

}  // namespace headscope::model
