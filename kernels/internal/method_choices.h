// SPDX-License-Identifier: Apache-2.0
// Choices of parameters that a method's file and its selector on the GPU both read: enumerations in the order of the
// parameter's names.
#pragma once

#include <cstdint>

#include "kernels/method_spec.h"

namespace headscope::kernels::internal {

// SpargeAttn: `rule` and `similarity`.
enum class SpargeRule : uint8_t { kCdf, kTopK };
enum class SpargeSimilarity : uint8_t { kByLargest, kCosine };

// FlexPrefill: `form`.
enum class FlexForm : uint8_t { kPaper, kCode };

// XAttention: rows and keys of a group, by `stride`, which is typed as such a number.
inline int32_t AntidiagonalStrideLog2(const ParameterValues& values) {
  constexpr int32_t kLeastLog2 = 2;  // 4, and each of the others twice the one before
  return kLeastLog2 + values.Integer("stride");
}

}  // namespace headscope::kernels::internal
