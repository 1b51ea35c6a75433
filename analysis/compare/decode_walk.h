// SPDX-License-Identifier: Apache-2.0
// A decode method walking over the recorded steps, on the CPU: comparisons and the live panel both take it, wherever
// attention then runs. Where the method takes what lower layers chose, it walks over these as well.
#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "compare/decode_steps.h"
#include "kernels/decode_driver.h"

namespace headscope::analysis {

class DecodeWalk {
 public:
  // `whole` is the problem of all rows, in host memory; `recorded` is its rows'. All of it outlives the walk.
  DecodeWalk(const DecodeSteps& steps, const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
             const kernels::AttentionProblem& whole, const RecordedRows& recorded, const kernels::RunOptions& options);
  ~DecodeWalk();

  // From the next call on this stops the walk.
  void StopBy(std::stop_token stop);
  // Before the first step, and before the steps are walked over once more.
  kernels::Status Start();
  // What the method keeps on a step, in tokens of its problem; adds what choosing took, the upkeep and lower layers
  // left out.
  kernels::Status Select(int64_t step, kernels::DecodeSelection* selection, double* select_ms);

  bool WantsOutput() const { return driver_.WantsOutput(); }
  // o [num_qo_heads, v_head_dim] and lse [num_qo_heads] of the step.
  kernels::Status Attended(int64_t step, const kernels::DecodeSelection& selection, float* o, float* lse);

 private:
  struct LowerLayer;

  // What the lower layers attend to at the step.
  kernels::Status SelectBelow(int64_t step, std::vector<const kernels::DecodeSelection*>* lower);

  const DecodeSteps& steps_;
  const kernels::AttentionProblem whole_;
  const RecordedRows recorded_;
  kernels::RunOptions options_;
  kernels::DecodeDriver driver_;
  std::vector<std::unique_ptr<LowerLayer>> below_;
  std::vector<int32_t> other_kv_heads_;  // lower layers that are wanted and have another number of them
  // Of such a layer, or of one that sees other tokens.
  const kernels::DecodeSelection no_choice_ = kernels::NoChoice();
  bool started_ = false;
};

}  // namespace headscope::analysis
