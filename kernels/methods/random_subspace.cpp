// SPDX-License-Identifier: Apache-2.0
#include "kernels/random_subspace.h"

#include <algorithm>
#include <cmath>

#include "sim_hash.h"

namespace headscope::kernels {
namespace {

double Dot(const double* a, const double* b, int32_t n) {
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::vector<float> RandomSubspace(int32_t num_directions, int32_t head_dim, uint64_t seed) {
  const int32_t count = std::min(num_directions, head_dim);
  const std::vector<float> normals = internal::RandomPlanes(count, head_dim, seed);
  std::vector<double> directions(normals.begin(), normals.end());
  for (int32_t i = 0; i < count; ++i) {
    double* const own = directions.data() + int64_t{i} * head_dim;
    // Twice: what rounding leaves of the others after one pass is gone after the second.
    for (int pass = 0; pass < 2; ++pass) {
      for (int32_t other = 0; other < i; ++other) {
        const double* const before = directions.data() + int64_t{other} * head_dim;
        const double shared = Dot(own, before, head_dim);
        for (int32_t d = 0; d < head_dim; ++d) own[d] -= shared * before[d];
      }
    }
    const double length = std::sqrt(Dot(own, own, head_dim));
    for (int32_t d = 0; d < head_dim; ++d) own[d] /= length;
  }
  return {directions.begin(), directions.end()};
}

void ProjectOnto(std::span<const float> directions, std::span<float> vector) {
  std::vector<double> projected(vector.size());
  for (size_t begin = 0; begin < directions.size(); begin += vector.size()) {
    double along = 0;
    for (size_t d = 0; d < vector.size(); ++d)
      along += static_cast<double>(directions[begin + d]) * static_cast<double>(vector[d]);
    for (size_t d = 0; d < vector.size(); ++d) projected[d] += along * static_cast<double>(directions[begin + d]);
  }
  std::transform(projected.begin(), projected.end(), vector.begin(), [](double x) { return static_cast<float>(x); });
}

}  // namespace headscope::kernels
