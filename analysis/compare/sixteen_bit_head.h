// A head in the 16-bit number format that the GPU computes it in.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/head_tensors.h"
#include "kernels/attention_problem.h"

namespace headscope::analysis {

// The values' bits in `dtype` (bf16 or fp16), the same numbers. False when the format does not have one of them.
bool NarrowExactly(const std::vector<float>& values, kernels::DType dtype, std::vector<uint16_t>* narrow);

struct SixteenBitHead {
  kernels::DType dtype = kernels::DType::kBFloat16;
  bool exact = false;             // no value was rounded
  std::vector<uint16_t> q, k, v;  // as in HeadTensors

  // The head's problem over these tensors.
  kernels::AttentionProblem Problem(const HeadTensors& head) const;
};

// bf16 or fp16, whichever holds Q, K and V exactly; otherwise bf16, rounded to nearest, ties to even.
SixteenBitHead ToSixteenBits(const HeadTensors& head);

// fp32 of `dtype`'s bits.
std::vector<float> Widen(const std::vector<uint16_t>& values, kernels::DType dtype);

}  // namespace headscope::analysis
