// SPDX-License-Identifier: Apache-2.0
// A learned sink in a row's log-sum-exp.
#pragma once

#include "head_sinks.h"

namespace headscope::kernels::statistics {

// The row's LSE, -inf for a row without keys, with its head's sink among the terms; NaN stays NaN.
__device__ __forceinline__ float WithSink(float lse, const HeadSinks& sinks, int head) {
  if (sinks.count == 0) return lse;
  const float sink = sinks.logit[head];
  return fmaxf(lse, sink) + log1pf(expf(-fabsf(lse - sink)));
}

}  // namespace headscope::kernels::statistics
