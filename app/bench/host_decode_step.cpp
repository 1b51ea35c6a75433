// SPDX-License-Identifier: Apache-2.0
#include "bench/host_decode_step.h"

#include <algorithm>

#include "base/check_status.h"
#include "base/errors.h"
#include "kernels/contiguous.h"

namespace headscope::app::bench {

HostDecodeStep::HostDecodeStep(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                               const PlacedProblem& placed, const kernels::AttentionProblem& problem,
                               const kernels::RunOptions& options)
    : placed_(placed), step_{.problem = problem}, options_(options), driver_(method, values) {
  // In the layers that choose for those above them, such a method costs what dense attention does.
  constexpr int32_t kAboveAllLayers = 1 << 20;
  if (!method.LowerLayers(values, kAboveAllLayers).empty()) {
    throw UsageError("--methods: " + method.spec().name +
                     " attends to what a lower layer chose, and a benchmark's step is one layer by itself; leave it "
                     "out, or compare it on a trace");
  }
  Prepare();
}

void HostDecodeStep::Prepare() {
  // Most methods that look at the prompt's queries want its last 64; a few want all, which may be gigabytes.
  constexpr int32_t kUsualRows = 64;
  const int32_t all = step_.problem.seq_k - 1;
  kernels::Status status = Begin(query_rows_ > 0 ? query_rows_ : std::min(kUsualRows, all));
  if (status.code() == kernels::StatusCode::kUnsupported && query_rows_ < all) status = Begin(all);
  CheckStatus(status);
  CheckStatus(driver_.Append(step_, options_));
}

kernels::Status HostDecodeStep::Begin(int32_t query_rows) {
  const kernels::AttentionProblem& problem = step_.problem;
  if (query_rows != query_rows_ && query_rows > 0) {
    queries_.resize(static_cast<size_t>(int64_t{problem.batch} * problem.num_qo_heads * query_rows * problem.head_dim *
                                        kernels::SizeOf(problem.dtype)));
    placed_.prompt_queries(query_rows, queries_.data());
  }
  query_rows_ = query_rows;
  kernels::DecodePrompt prompt;
  prompt.cache = problem;
  prompt.layer = std::max(0, problem.layer);  // -1: of no model
  --prompt.cache.seq_k;
  prompt.cache.seq_q = query_rows;
  prompt.cache.first_position = prompt.cache.seq_k - query_rows;
  prompt.cache.window = placed_.window;
  prompt.cache.q =
      kernels::ContiguousTensor<const void>(queries_.data(), problem.num_qo_heads, query_rows, problem.head_dim);
  prompt.capacity = problem.seq_k;
  return driver_.Begin(prompt, options_);
}

const kernels::DecodeSelection& HostDecodeStep::Select() {
  CheckStatus(driver_.Step(step_, options_, &selection_));
  return selection_;
}

}  // namespace headscope::app::bench
