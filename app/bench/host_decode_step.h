// SPDX-License-Identifier: Apache-2.0
// The selection of one decode step on the host, as the benchmark times it.
#pragma once

#include <vector>

#include "bench/bench_device.h"
#include "kernels/decode_driver.h"

namespace headscope::app::bench {

// `problem` is the step of `placed`, in host memory; it stands for a generation whose prompt is all of its tokens but
// the newest. The prompt's queries are placed.prompt_queries': as many of the last ones as the method asks for.
class HostDecodeStep {
 public:
  // Begins the generation and moves on to the step. What is passed by reference outlives this. Throws as CheckStatus
  // (base/check_status.h), and as placed.prompt_queries; UsageError for a method that takes what lower layers chose,
  // which one layer by itself cannot give.
  HostDecodeStep(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                 const PlacedProblem& placed, const kernels::AttentionProblem& problem,
                 const kernels::RunOptions& options);

  // Whether Prepare() is to be called before every Select(): the step changes what the next one would choose.
  bool NeedsPreparing() const { return !driver_.AnyOrder(); }
  void Prepare();
  const kernels::DecodeSelection& Select();
  const kernels::DecodeSelection& selection() const { return selection_; }

 private:
  kernels::Status Begin(int32_t query_rows);

  const PlacedProblem& placed_;
  const kernels::DecodeStep step_;
  const kernels::RunOptions options_;
  kernels::DecodeDriver driver_;
  std::vector<char> queries_;  // of the prompt's last rows
  int32_t query_rows_ = 0;
  kernels::DecodeSelection selection_;
};

}  // namespace headscope::app::bench
