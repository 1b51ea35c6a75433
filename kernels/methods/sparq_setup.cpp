// SPDX-License-Identifier: Apache-2.0
#include "kernels/sparq_setup.h"

#include <algorithm>
#include <cmath>

#include "common_parameters.h"

namespace headscope::kernels {

SparqCudaOptions SparqOptions(const ParameterValues& values, const AttentionProblem& problem) {
  const int32_t num_tokens = std::min(internal::BudgetInTokens(values, "k", problem.seq_k), problem.seq_k);
  // Rounded down, but a product that is whole but for its rounding is that number: 0.29 of 100 tokens is 29, not 28.
  constexpr double kRounding = 1e-9;
  const double num_local = std::floor(values.Real("local_share") * num_tokens + kRounding);
  // "auto" follows the paper, section 4: no reallocation where the layer groups its queries. Nor where the mean value
  // does not stand for all that is left out: beside a sink, which has no value, or a window.
  enum class Reallocate : uint8_t { kNo, kYes, kAuto };
  const auto asked = values.Choice<Reallocate>("reallocate");
  const bool applies = problem.LayerGroupSize() == 1 && problem.sinks == nullptr && problem.window == 0;
  const bool reallocate = asked == Reallocate::kAuto ? applies : asked == Reallocate::kYes;
  return {.rank = std::min(values.Integer("r"), problem.head_dim),
          .num_tokens = num_tokens,
          .num_local = static_cast<int32_t>(num_local),
          .mean_value = reallocate};
}

bool SparqHasTwoCopies(const ParameterValues& values) {
  enum class Copies : uint8_t { kTwo, kOne };
  return values.Choice<Copies>("copies") == Copies::kTwo;
}

int64_t ComponentStride(int64_t seq_k) {
  constexpr int64_t kLine = 64;  // elements
  return (seq_k + kLine - 1) / kLine * kLine;
}

}  // namespace headscope::kernels
