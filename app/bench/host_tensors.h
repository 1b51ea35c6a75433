// SPDX-License-Identifier: Apache-2.0
// What a method reads that chooses on the CPU for work on a GPU.
#pragma once

#include <vector>

#include "bench/bench_device.h"
#include "kernels/attention_problem.h"

namespace headscope::app::bench {

// Copies in host memory of a problem's contiguous tensors, and the problem over them.
struct HostTensors {
  std::vector<char> q, k, v;
  kernels::AttentionProblem problem;

  // Without values problem.v is empty: prefill's selectors do not read V.
  void Download(BenchDevice& device, const kernels::AttentionProblem& of, bool with_values);
};

}  // namespace headscope::app::bench
