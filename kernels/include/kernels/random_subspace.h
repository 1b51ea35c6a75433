// SPDX-License-Identifier: Apache-2.0
// Directions of a random subspace: what a query's scores are estimated from where no component is better than another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headscope::kernels {

// Orthonormal directions, [min(num_directions, head_dim), head_dim] fp32: by Gram and Schmidt from independent standard
// normal components, number i of which (row by row) is Box and Muller's transform of numbers 2 i and 2 i + 1 of
// SplitMix64's stream `seed` (of which the first number is the stream's key). Subspaces of one seed are nested.
std::vector<float> RandomSubspace(int32_t num_directions, int32_t head_dim, uint64_t seed);

// What is left of a vector in the span of the directions, in place. Its product with a key is that of both projections.
void ProjectOnto(std::span<const float> directions, std::span<float> vector);

}  // namespace headscope::kernels
