// SPDX-License-Identifier: Apache-2.0
// Learned sinks as kernels take them (AttentionProblem::sinks, which lies in host memory): by value among the launch's
// parameters. A call so copies nothing to the GPU before it launches, and a graph keeps the sinks that it was captured
// with.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention_problem.h"

namespace headscope::kernels {

constexpr int32_t kMaxSinkHeads = 128;  // query heads of a problem with sinks; a launch has 4 KiB of parameters

struct HeadSinks {
  int32_t count;               // query heads, or 0: there are no sinks
  float logit[kMaxSinkHeads];  // finite, in natural units
};

// Of a problem that passed CheckShape (problem_check.h).
inline HeadSinks SinksOf(const AttentionProblem& problem) {
  HeadSinks sinks{};
  if (problem.sinks == nullptr) return sinks;
  sinks.count = problem.num_qo_heads;
  std::copy_n(problem.sinks, problem.num_qo_heads, sinks.logit);
  return sinks;
}

}  // namespace headscope::kernels
