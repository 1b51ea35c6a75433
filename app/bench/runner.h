// SPDX-License-Identifier: Apache-2.0
// Runs groups of workloads and times them.
//
// Method. Ceilings first, then group by group. Inside a group every repeat times each row once, in an order of its own,
// so that a drift of the clock and what the row before left behind meet all of them; a first round warms up and is not
// counted. Every timed run starts with cold caches. Select and attend are timed apart, and once more in one run. Where
// it is asked for, each row then runs alone for some seconds. Before anything is timed, our dense output (where dense
// is among the workloads) is compared with LibTorch's: times of different things are not compared; and both with
// float64.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "bench/bench_device.h"
#include "bench/bench_report.h"
#include "bench/workload.h"

namespace headscope::app::bench {

struct RunnerOptions {
  int32_t repeats = 7;
  double sustained_seconds = 0;  // that each row runs alone, without a pause; 0: it doesn't
  int32_t num_threads = 0;
  int64_t product_rows = 0;  // of the matrix product's square matrices
  int64_t copy_bytes = 0;
  std::stop_token stop = {};
  // Called with every prefill index before it is timed; may be empty.
  std::function<void(const Group&, const Workload&, const kernels::SparseIndex&)> save_index;
  // stage, done, total.
  std::function<void(const std::string&, int64_t, int64_t)> progress;
};

// After a request of options.stop: what was measured until then, marked as interrupted. Throws what main() turns
// into the right exit code.
Report RunBenchmark(const std::vector<Group>& groups, const RunnerOptions& options, BenchDevice& device);

}  // namespace headscope::app::bench
