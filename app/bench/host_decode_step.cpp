// SPDX-License-Identifier: Apache-2.0
#include "bench/host_decode_step.h"

#include <algorithm>

#include "base/check_status.h"
#include "bench/bench_device.h"
#include "kernels/contiguous.h"
#include "kernels/seeded_problem.h"

namespace headscope::app::bench {

HostDecodeStep::HostDecodeStep(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                               const kernels::AttentionProblem& problem, const kernels::RunOptions& options)
    : step_{.problem = problem}, options_(options), driver_(method, values) {
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
  kernels::DecodePrompt prompt;
  prompt.cache = problem;
  --prompt.cache.seq_k;
  prompt.cache.seq_q = query_rows;
  prompt.cache.first_position = prompt.cache.seq_k - query_rows;
  prompt.capacity = problem.seq_k;
  if (query_rows != query_rows_ && query_rows > 0) {
    const kernels::SeededProblem shape{.batch = problem.batch,
                                       .num_qo_heads = problem.num_qo_heads,
                                       .num_kv_heads = problem.num_kv_heads,
                                       .head_dim = problem.head_dim,
                                       .seq_q = query_rows,
                                       .seq_k = query_rows};
    const int64_t count = kernels::ElementCount(shape, kernels::SeededTensor::kQuery);
    queries_.resize(static_cast<size_t>(count * kernels::SizeOf(problem.dtype)));
    kernels::Status status =
        kernels::FillSeeded(shape, kernels::SeededTensor::kQuery, problem.dtype, options_, queries_.data());
    if (!status.ok()) return status;
  }
  query_rows_ = query_rows;
  prompt.cache.q =
      kernels::ContiguousTensor<const void>(queries_.data(), problem.num_qo_heads, query_rows, problem.head_dim);
  return driver_.Begin(prompt, options_);
}

const kernels::DecodeSelection& HostDecodeStep::Select() {
  CheckStatus(driver_.Step(step_, options_, &selection_));
  return selection_;
}

}  // namespace headscope::app::bench
