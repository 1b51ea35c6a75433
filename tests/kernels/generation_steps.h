// SPDX-License-Identifier: Apache-2.0
// The steps of a generation, of a problem that has all rows and tokens.
#pragma once

#include <cstdint>

#include "kernels/decode_driver.h"
#include "random_problem.h"

namespace headscope::kernels::testing {

// The step of the token at that position.
inline DecodeStep StepAt(const RandomProblem& data, int32_t position) {
  DecodeStep step;
  AttentionProblem& problem = step.problem = data.View();
  problem.q.data =
      static_cast<const char*>(problem.q.data) + position * problem.q.row_stride * SizeOf(data.shape.dtype);
  problem.seq_q = 1;
  problem.seq_k = position + 1;
  problem.first_position = position;
  return step;
}

// Shows the step's token to the driver, and lets it choose.
inline Status Take(DecodeDriver& driver, const DecodeStep& step, DecodeSelection* selection) {
  const Status status = driver.Append(step, {});
  return status.ok() ? driver.Step(step, {}, selection) : status;
}

}  // namespace headscope::kernels::testing
