// SPDX-License-Identifier: Apache-2.0
#include "bench/host_decode_step.h"

#include "base/check_status.h"
#include "bench/bench_device.h"

namespace headscope::app::bench {

HostDecodeStep::HostDecodeStep(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                               const kernels::AttentionProblem& problem, const kernels::RunOptions& options)
    : step_{.problem = problem}, options_(options), driver_(method, values) {
  Prepare();
}

void HostDecodeStep::Prepare() {
  kernels::DecodePrompt prompt;
  prompt.cache = step_.problem;
  --prompt.cache.seq_k;
  prompt.cache.seq_q = 0;  // its queries are not at hand
  prompt.capacity = step_.problem.seq_k;
  CheckStatus(driver_.Begin(prompt, options_));
  CheckStatus(driver_.Append(step_, options_));
}

const kernels::DecodeSelection& HostDecodeStep::Select() {
  CheckStatus(driver_.Step(step_, options_, &selection_));
  return selection_;
}

}  // namespace headscope::app::bench
