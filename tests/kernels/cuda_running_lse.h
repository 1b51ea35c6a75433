// SPDX-License-Identifier: Apache-2.0
// Problems whose scores are one number per key, whatever the row, so that a row's LSE is a running sum over the keys
// before it: any scores at all can be tested at any length.
#pragma once

#include <vector>

#include "device_array.h"
#include "kernels/attention_problem.h"

namespace headscope::kernels::testing {

// One bf16 head of as many rows and keys as there are scores, contiguous on the GPU, causal, scale 1: q is 1 and k the
// score, in one component of 64.
class OneComponentProblem {
 public:
  explicit OneComponentProblem(const std::vector<float>& scores, float soft_cap = 0);

  const AttentionProblem& problem() const { return problem_; }
  // What bf16 has made of them, before the cap.
  const std::vector<double>& scores() const { return scores_; }

 private:
  std::vector<double> scores_;
  DeviceArray<uint16_t> q_, k_;
  AttentionProblem problem_;
};

// Expects lse[row] to be the log of the sum of exp(scores[0 .. row]), within fp32's error of scores of that size; minus
// infinity where that sum is 0, and NaN from the first score on that is one.
void ExpectRunningLse(const std::vector<float>& lse, const std::vector<double>& scores, const char* what);

}  // namespace headscope::kernels::testing
