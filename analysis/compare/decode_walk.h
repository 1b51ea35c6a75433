// SPDX-License-Identifier: Apache-2.0
// A decode method walking over the recorded steps, on the CPU: comparisons and the live panel both take it, wherever
// attention then runs.
#pragma once

#include <stop_token>
#include <utility>

#include "compare/decode_steps.h"
#include "kernels/decode_driver.h"

namespace headscope::analysis {

class DecodeWalk {
 public:
  // `whole` is the problem of all rows, in host memory; `recorded` is its rows'. All of it outlives the walk.
  DecodeWalk(const DecodeSteps& steps, const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
             const kernels::AttentionProblem& whole, const RecordedRows& recorded, const kernels::RunOptions& options)
      : steps_(steps), whole_(whole), recorded_(recorded), options_(options), driver_(method, values) {}

  // From the next call on this stops the walk.
  void StopBy(std::stop_token stop) { options_.stop = std::move(stop); }
  // Before the first step, and before the steps are walked over once more.
  kernels::Status Start() {
    if (started_ && driver_.AnyOrder()) return {};
    started_ = true;
    return driver_.Begin(steps_.Prompt(whole_, recorded_), options_);
  }
  // What the method keeps on a step, in tokens of its problem; adds what choosing took, the upkeep left out.
  kernels::Status Select(int64_t step, kernels::DecodeSelection* selection, double* select_ms);

  bool WantsOutput() const { return driver_.WantsOutput(); }
  // o [num_qo_heads, v_head_dim] and lse [num_qo_heads] of the step.
  kernels::Status Attended(int64_t step, const kernels::DecodeSelection& selection, float* o, float* lse);

 private:
  const DecodeSteps& steps_;
  const kernels::AttentionProblem whole_;
  const RecordedRows recorded_;
  kernels::RunOptions options_;
  kernels::DecodeDriver driver_;
  bool started_ = false;
};

}  // namespace headscope::analysis
