// SPDX-License-Identifier: Apache-2.0
// SimHash: on which side of random planes a vector lies. Vectors at an angle a share a bit with probability 1 - a / pi.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::kernels::internal {

// Normals of `num_planes` random planes, [num_planes, head_dim] fp32: independent standard normal components, number i
// (row by row) by Box and Muller's transform of numbers 2 i and 2 i + 1 of SplitMix64's stream RandomAt(seed, 0).
std::vector<float> RandomPlanes(int32_t num_planes, int32_t head_dim, uint64_t seed);

}  // namespace headscope::kernels::internal
