// SPDX-License-Identifier: Apache-2.0
#include "kernels/sparq_setup.h"

#include <algorithm>
#include <cmath>

#include "kernels/parallel.h"

namespace headscope::kernels {

SparqCudaOptions SparqOptions(const ParameterValues& values, const AttentionProblem& problem) {
  const int32_t num_tokens = std::min(values.Integer("k"), problem.seq_k);
  // Rounded down, but a product that is whole but for its rounding is that number: 0.29 of 100 tokens is 29, not 28.
  constexpr double kRounding = 1e-9;
  const double num_local = std::floor(values.Real("local_share") * num_tokens + kRounding);
  // "auto" follows the paper, section 4: no reallocation where the layer groups its queries.
  enum class Reallocate : uint8_t { kNo, kYes, kAuto };
  const auto asked = values.Choice<Reallocate>("reallocate");
  const bool reallocate = asked == Reallocate::kAuto ? problem.LayerGroupSize() == 1 : asked == Reallocate::kYes;
  return {.rank = std::min(values.Integer("r"), problem.head_dim),
          .num_tokens = num_tokens,
          .num_local = static_cast<int32_t>(num_local),
          .mean_value = reallocate};
}

int64_t ComponentStride(int64_t seq_k) {
  constexpr int64_t kLine = 64;  // elements
  return (seq_k + kLine - 1) / kLine * kLine;
}

std::vector<uint16_t> ComponentMajorKeys(const void* k, int64_t num_lists, int64_t seq_k, int64_t head_dim,
                                         int32_t num_threads) {
  constexpr int64_t kTile = 64;  // tokens whose rows stay in the cache while their components are written
  const int64_t stride = ComponentStride(seq_k);
  std::vector<uint16_t> copy(static_cast<size_t>(num_lists * head_dim * stride), 0);
  ParallelFor(num_lists, num_threads, {}, [&](int64_t list, int32_t) {
    const uint16_t* const from = static_cast<const uint16_t*>(k) + list * seq_k * head_dim;
    uint16_t* const to = copy.data() + list * head_dim * stride;
    for (int64_t first = 0; first < seq_k; first += kTile) {
      const int64_t end = std::min(first + kTile, seq_k);
      for (int64_t d = 0; d < head_dim; ++d) {
        for (int64_t token = first; token < end; ++token) to[d * stride + token] = from[token * head_dim + d];
      }
    }
  });
  return copy;
}

}  // namespace headscope::kernels
