// SPDX-License-Identifier: Apache-2.0
#include "sim_hash.h"

#include <cmath>
#include <numbers>

#include "problems/counter_random.h"

namespace headscope::kernels::internal {

std::vector<float> RandomPlanes(int32_t num_planes, int32_t head_dim, uint64_t seed) {
  const uint64_t stream = problems::RandomAt(seed, 0);
  std::vector<float> planes(static_cast<size_t>(int64_t{num_planes} * head_dim));
  constexpr double kUnit = 0x1p-53;
  for (size_t i = 0; i < planes.size(); ++i) {
    // (0, 1], of which a logarithm is taken, and [0, 1).
    const double radius = static_cast<double>((problems::RandomAt(stream, 2 * i) >> 11) + 1) * kUnit;
    const double turn = static_cast<double>(problems::RandomAt(stream, 2 * i + 1) >> 11) * kUnit;
    planes[i] = static_cast<float>(std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * turn));
  }
  return planes;
}

}  // namespace headscope::kernels::internal
