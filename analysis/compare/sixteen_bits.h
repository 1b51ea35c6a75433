// SPDX-License-Identifier: Apache-2.0
// Q, K and V in the 16-bit number format that the GPU computes them in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::analysis {

// The values' bits in `dtype` (bf16 or fp16), the same numbers. False when the format does not have one of them.
bool NarrowExactly(std::span<const float> values, kernels::DType dtype, std::vector<uint16_t>* narrow);

struct SixteenBits {
  kernels::DType dtype = kernels::DType::kBFloat16;
  bool exact = false;  // no value was rounded
  std::vector<uint16_t> q, k, v;

  // The problem of the same shape over these tensors.
  kernels::AttentionProblem Of(kernels::AttentionProblem problem) const;
};

// bf16 or fp16, whichever holds Q, K and V exactly; otherwise bf16, rounded to nearest, ties to even.
SixteenBits ToSixteenBits(std::span<const float> q, std::span<const float> k, std::span<const float> v);

// fp32 of `dtype`'s bits.
std::vector<float> Widen(const std::vector<uint16_t>& values, kernels::DType dtype);

}  // namespace headscope::analysis
