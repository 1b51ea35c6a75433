// SPDX-License-Identifier: Apache-2.0
// How far dense outputs are from attention in float64, on some rows of the first head.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "bench/bench_device.h"

namespace headscope::app::bench {

// Relative L2 distances: of all the rows together, and of the worst one. -1: not looked at.
struct RowErrors {
  double all = -1, worst = -1;
};

// Of rows by their squared distance from what is exact, and by that one's squared norm.
RowErrors ErrorsOfRows(const std::vector<double>& differences, const std::vector<double>& norms);

// Attention of query head 0 of the first sequence in float64, with the layer's window, soft cap and sink, for rows
// spread over the prompt, its last among them; of all keys that a row sees, or of those that an index keeps.
class ExactRows {
 public:
  // Reads Q, K and V of the head from the device. Throws CancelledError.
  ExactRows(BenchDevice& device, const PlacedProblem& placed, int32_t num_threads, const std::stop_token& stop,
            const kernels::SparseIndex* kept = nullptr);
  // Of an output of that head, [seq_q, v_head_dim].
  RowErrors ErrorsOf(const std::vector<float>& output) const;

 private:
  int64_t v_head_dim_;
  std::vector<int64_t> rows_;
  std::vector<double> exact_;  // [rows, v_head_dim]
};

}  // namespace headscope::app::bench
