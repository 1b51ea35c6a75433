// SPDX-License-Identifier: Apache-2.0
#include "network/mxfp4.h"

#include <ATen/ops/empty.h>

#include <array>
#include <cmath>
#include <limits>

namespace headscope::model {

at::Tensor FromMxfp4(const at::Tensor& blocks, const at::Tensor& scales) {
  constexpr std::array<float, 16> kValues = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                             -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  constexpr int kScaleBias = 127, kNotANumber = 255;
  constexpr int64_t kBlockBytes = 16;
  const at::Tensor packed = blocks.contiguous(), exponents = scales.contiguous();
  at::Tensor numbers = at::empty({blocks.size(0), blocks.size(1) * 2 * kBlockBytes}, at::kFloat);
  const auto* from = packed.const_data_ptr<uint8_t>();
  const auto* exponent = exponents.const_data_ptr<uint8_t>();
  auto* to = numbers.mutable_data_ptr<float>();
  for (int64_t block = 0; block < exponents.numel(); ++block, ++exponent) {
    const float scale = *exponent == kNotANumber ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::ldexp(1.0f, int{*exponent} - kScaleBias);
    for (int64_t i = 0; i < kBlockBytes; ++i, ++from) {
      *to++ = kValues[*from & 15U] * scale;
      *to++ = kValues[*from >> 4U] * scale;
    }
  }
  return numbers;
}

}  // namespace headscope::model
