// SPDX-License-Identifier: Apache-2.0
// The fewest lines, stripes or blocks that hold a share of a mass, with one rule for every method that chooses by a
// share (top-p).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headscope::kernels::internal {

// Masses best first, and what the choice of a share of their sum goes by.
struct RankedMass {
  std::vector<int32_t> ranking;
  std::vector<double> before;  // the mass of those ahead of each
  double total = 0;

  // Whether a share keeps what stands at this rank: the fewest whose mass reaches the share of the total, and all of
  // them for a share of 1, whatever rounding does.
  bool Keeps(size_t rank, double share) const { return share >= 1.0 || before[rank] < share * total; }
  size_t Count(double share) const;
};

// Equal masses by lower index. What is not finite (from NaN in Q or K) counts as 0.
RankedMass RankMass(std::vector<float> mass);

// What a share keeps, at least the `minimum` best, ascending.
std::vector<int32_t> TopShare(const std::vector<float>& mass, double share, int64_t minimum = 0);

// Sums of `size` neighbours; the last may be of fewer.
std::vector<float> StripeSums(std::span<const float> lines, int32_t size);

}  // namespace headscope::kernels::internal
