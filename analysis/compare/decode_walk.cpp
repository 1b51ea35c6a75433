// SPDX-License-Identifier: Apache-2.0
#include "compare/decode_walk.h"

#include "analysis/types/timing.h"
#include "kernels/contiguous.h"

namespace headscope::analysis {

using kernels::Status;

Status DecodeWalk::Select(int64_t step, kernels::DecodeSelection* selection, double* select_ms) {
  const kernels::DecodeStep at = steps_.Step(whole_, step);
  if (Status status = driver_.Append(at, options_); !status.ok()) return status;
  const Stopwatch watch;
  Status status = driver_.Step(at, options_, selection);
  *select_ms += watch.Milliseconds();
  return status;
}

Status DecodeWalk::Attended(int64_t step, const kernels::DecodeSelection& selection, float* o, float* lse) {
  const kernels::AttentionOutput output{kernels::ContiguousTensor<void>(o, whole_.num_qo_heads, 1, whole_.ValueDim()),
                                        lse};
  return driver_.Attended(steps_.Step(whole_, step), selection, output, options_);
}

}  // namespace headscope::analysis
