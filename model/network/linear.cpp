// SPDX-License-Identifier: Apache-2.0
#include "network/linear.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear.h>

#include <optional>
#include <string_view>

namespace headscope::model {
namespace {

using OneDnnLinear = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                std::string_view, c10::List<std::optional<at::Scalar>>,
                                std::optional<std::string_view>);

// It has no function in LibTorch's headers. Nothing: this LibTorch has none.
const std::optional<c10::TypedOperatorHandle<OneDnnLinear>>& OneDnn() {
  static const auto found = []() -> std::optional<c10::TypedOperatorHandle<OneDnnLinear>> {
    const auto handle = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!handle) return std::nullopt;
    return handle->typed<OneDnnLinear>();
  }();
  return found;
}

// LibTorch multiplies fp32 on a CPU by MKL, which uses AVX-512 on Intel's processors alone. oneDNN, which LibTorch has
// as well, uses it on every processor that has it: 2.2 times as fast on a Zen 5.
bool OneDnnIsFaster() {
#ifdef __x86_64__
  static const bool faster = at::Context::hasMKLDNN() && !__builtin_cpu_is("intel") &&
                             __builtin_cpu_supports("avx512f") != 0 && OneDnn().has_value();
  return faster;
#else
  return false;
#endif
}

// Below these, what oneDNN does before it multiplies takes longer than it gains. A number of rows that it has not met
// yet costs it 0.4 to 0.9 ms, as the last pass of a prompt and an expert's tokens do: on a Zen 5 every shape from 960 x
// 576 to 4096 x 4096 gains, or is even, from so many multiplications on. A single row stays with MKL, whatever the
// head.
constexpr int64_t kLeastRows = 32, kLeastProducts = int64_t{1} << 26;

at::Tensor LinearByOneDnn(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const std::optional<at::Tensor> added = bias.defined() ? std::optional(bias) : std::nullopt;
  return OneDnn()->call(x.contiguous(), weight, added, "none", c10::List<std::optional<at::Scalar>>(), "");
}

}  // namespace

bool OneDnnTakes(const at::Tensor& x, const at::Tensor& weight) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && x.dim() == 2 &&
         x.size(0) >= kLeastRows && x.size(0) * weight.numel() >= kLeastProducts && weight.is_contiguous() &&
         OneDnnIsFaster();
}

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return OneDnnTakes(x, weight) ? LinearByOneDnn(x, weight, bias) : at::linear(x, weight, bias);
}

}  // namespace headscope::model
