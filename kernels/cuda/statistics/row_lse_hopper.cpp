// SPDX-License-Identifier: Apache-2.0
// Row LSE on Hopper, the host's side: descriptors, work items, and which variant.
#include "statistics/row_lse_hopper.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "hopper/tensor_map.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"

namespace headscope::kernels::statistics {
namespace {

struct Variant {
  int32_t head_dim;
  RowLseLaunch* bf16;
  RowLseLaunch* fp16;
};

// A head_dim between two is padded with zeros in shared memory, which TMA does.
const Variant& VariantOf(int32_t head_dim) {
  static constexpr Variant kVariants[] = {{64, LaunchRowLseBf16D64, LaunchRowLseFp16D64},
                                          {128, LaunchRowLseBf16D128, LaunchRowLseFp16D128},
                                          {256, LaunchRowLseBf16D256, LaunchRowLseFp16D256}};
  return *std::find_if(std::begin(kVariants), std::end(kVariants) - 1,
                       [&](const Variant& variant) { return head_dim <= variant.head_dim; });
}

}  // namespace

Status RowLseHopper(const AttentionProblem& problem, const ScoreParams& scores, int num_multiprocessors, float* lse,
                    cudaStream_t stream) {
  RowLseParams params{};
  params.scores = scores;
  params.lse = lse;
  params.sinks = SinksOf(problem);
  Status status = hopper::EncodeTensorMap(
      {"q", problem.dtype, problem.batch, problem.num_qo_heads, problem.seq_q, problem.head_dim, kGroupRows}, problem.q,
      &params.q);
  if (status.ok()) {
    status = hopper::EncodeTensorMap(
        {"k", problem.dtype, problem.batch, problem.num_kv_heads, problem.seq_k, problem.head_dim, kLseTileKeys},
        problem.k, &params.k);
  }
  if (!status.ok()) return status;
  const Variant& variant = VariantOf(problem.head_dim);
  RowLseLaunch* const launch = problem.dtype == DType::kBFloat16 ? variant.bf16 : variant.fp16;
  return CudaStatus(launch(params, num_multiprocessors, stream), "RowLseHopperKernel (" + Describe(problem) + ")");
}

}  // namespace headscope::kernels::statistics
