// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kept_sets.h"

namespace headscope::kernels::testing {

// Exact softmax of one query head of the first sequence, float64.
inline std::vector<double> Probabilities(const RandomProblem& data, int32_t head) {
  const int32_t kv_head = head / (data.shape.num_qo_heads / data.shape.num_kv_heads);
  std::vector<double> p;
  for (int32_t token = 0; token < data.shape.seq_k; ++token) {
    double dot = 0;
    for (int32_t d = 0; d < data.shape.head_dim; ++d) {
      dot += static_cast<double>(data.q.Get(0, head, 0, d)) * static_cast<double>(data.k.Get(0, kv_head, token, d));
    }
    p.push_back(dot / std::sqrt(data.shape.head_dim));
  }
  const double maximum = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - maximum);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace headscope::kernels::testing
