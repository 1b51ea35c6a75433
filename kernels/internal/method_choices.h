// SPDX-License-Identifier: Apache-2.0
// Choices of parameters that a method's file and its selector on the GPU both read: enumerations in the order of the
// parameter's names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "kernels/method_spec.h"

namespace headscope::kernels::internal {

// SpargeAttn: `rule` and `similarity`.
enum class SpargeRule : uint8_t { kCdf, kTopK };
enum class SpargeSimilarity : uint8_t { kByLargest, kCosine };

// FlexPrefill: `form`.
enum class FlexForm : uint8_t { kPaper, kCode };

// SampleAttention: its shares and chunks, given or by the paper's Table 6 (`by_length`) for a prompt of num_tokens.
struct SampleSettings {
  double alpha_c = 0, alpha_s = 0;
  int32_t chunk_n = 1;
};
inline SampleSettings SampleSettingsOf(const ParameterValues& values, int64_t num_tokens) {
  const int table = values.Integer("by_length");
  if (table == 0) return {values.Real("alpha_c"), values.Real("alpha_s"), values.Integer("chunk_n")};
  constexpr int64_t kRangeEnds[] = {16 << 10, 48 << 10, 80 << 10, 112 << 10};  // tokens; the last range is open
  // In the order of the names: GLM4 without a loss and fast, InternLM2 without a loss and fast.
  constexpr SampleSettings kTable[][std::size(kRangeEnds) + 1] = {
      {{0.98, 0.90, 1}, {0.95, 0.95, 1}, {0.95, 0.95, 1}, {0.90, 0.90, 2}, {0.95, 0.85, 1}},
      {{0.85, 0.85, 1}, {0.85, 0.80, 1}, {0.80, 0.80, 1}, {0.80, 0.80, 1}, {0.80, 0.80, 1}},
      {{0.98, 0.95, 1}, {0.95, 0.90, 1}, {0.92, 0.92, 1}, {0.92, 0.90, 2}, {0.95, 0.90, 2}},
      {{0.85, 0.85, 1}, {0.80, 0.80, 1}, {0.80, 0.80, 1}, {0.80, 0.80, 1}, {0.80, 0.80, 1}}};
  const auto range = std::upper_bound(std::begin(kRangeEnds), std::end(kRangeEnds), num_tokens) - kRangeEnds;
  return kTable[table - 1][range];
}

// XAttention: rows and keys of a group, by `stride`, which is typed as such a number.
inline int32_t AntidiagonalStrideLog2(const ParameterValues& values) {
  constexpr int32_t kLeastLog2 = 2;  // 4, and each of the others twice the one before
  return kLeastLog2 + values.Integer("stride");
}

}  // namespace headscope::kernels::internal
