// SPDX-License-Identifier: Apache-2.0
// Means of a tensor's components over its rows, and of those.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace headscope::analysis {

// Row by row, so that a processor adds several components at once. values: [rows, dim].
template <class Term>
std::vector<double> MeansOverRows(std::span<const float> values, size_t dim, const Term& term) {
  std::vector<double> sums(dim);
  for (size_t begin = 0; begin + dim <= values.size(); begin += dim) {
    for (size_t i = 0; i < dim; ++i) sums[i] += term(static_cast<double>(values[begin + i]), i);
  }
  const auto rows = static_cast<double>(std::max<size_t>(values.size() / dim, 1));
  for (double& sum : sums) sum /= rows;
  return sums;
}

inline std::vector<double> ComponentMeans(std::span<const float> values, size_t dim) {
  return MeansOverRows(values, dim, [](double value, size_t) { return value; });
}

inline double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace headscope::analysis
