// SPDX-License-Identifier: Apache-2.0
#include "decode/dense_plan.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "current_device.h"
#include "kernels/cuda_resources.h"

namespace headscope::kernels::decode {

namespace {

// Bytes of a message for four components of a head: see DenseMessage.
constexpr int32_t kMessageColumnBytes = 4 * 4 + 2 * 4;

int32_t PassesPerList(const AttentionProblem& problem) {
  return (problem.GroupSize() + kMaxDenseGroup - 1) / kMaxDenseGroup;
}
int32_t HeadsPerPass(const AttentionProblem& problem) {
  return (problem.GroupSize() + PassesPerList(problem) - 1) / PassesPerList(problem);
}

// Deals the steps out to at most so many blocks. A block whose share spans two passes empties its ring and sends a part
// amid its share, so that it is done last, and others wait for it: shares keep to one pass, or have whole ones,
// where that makes the longest of them hardly longer.
void ShareOut(int32_t blocks, DenseParams* x) {
  const int64_t steps = int64_t{x->passes} * x->steps;
  const int64_t longest = (steps + blocks - 1) / blocks;
  const int32_t passes_each = (x->passes + blocks - 1) / blocks;
  const int32_t blocks_each = std::min(blocks / x->passes, x->steps);
  x->blocks_per_pass = 0;
  if (x->passes % passes_each == 0 && int64_t{passes_each} * x->steps <= longest + longest / 32) {
    x->blocks = x->passes / passes_each;
  } else if (blocks_each > 0 && (x->steps + blocks_each - 1) / blocks_each <= longest + longest / 16) {
    x->blocks = x->passes * blocks_each;
    x->blocks_per_pass = blocks_each;
  } else {
    x->blocks = blocks;
  }
  const int64_t dealt = x->blocks_per_pass > 0 ? x->steps : steps;
  const int32_t among = x->blocks_per_pass > 0 ? x->blocks_per_pass : x->blocks;
  x->share = static_cast<int32_t>(dealt / among);
  x->longer = static_cast<int32_t>(dealt % among);
  x->by_blocks_per_pass = DivideBy(std::max(x->blocks_per_pass, 1));
  x->by_share = DivideBy(x->share);
  x->by_longer_share = DivideBy(x->share + 1);
}

}  // namespace

Status FindDecodeDevice(DecodeDevice* device) {
  CurrentDevice current;
  if (Status status = FindCurrentDevice(&current); !status.ok()) return status;
  device->num_multiprocessors = current.num_multiprocessors;
  device->bulk_copies = current.compute_capability >= 90;
  for (const auto& [attribute, value] :
       {std::pair{cudaDevAttrMaxSharedMemoryPerBlockOptin, &device->shared_of_block},
        std::pair{cudaDevAttrMaxSharedMemoryPerMultiprocessor, &device->shared_of_multiprocessor}}) {
    if (Status status =
            CudaStatus(cudaDeviceGetAttribute(value, attribute, current.ordinal), "asking for the GPU's shared memory");
        !status.ok()) {
      return status;
    }
  }
  return {};
}

size_t CounterBytes(const AttentionProblem& problem) {
  const size_t counters = static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_qo_heads) + 1;
  return (4 * counters + 255) / 256 * 256;
}

size_t ZeroedBytes(const AttentionProblem& problem, const DecodeDevice& device) {
  // As for any call that uses the workspace.
  constexpr int32_t kMaxHeadDim = 128, kMostCandidates = kMaxKept;
  const int32_t of_dense = 2 * HeadsPerPass(problem) * kMaxHeadDim / 4 * kMessageColumnBytes;
  const int32_t of_sparq = problem.GroupSize() == 1 ? kMostCandidates * 8 + 16 : 0;
  return CounterBytes(problem) + static_cast<size_t>(device.num_multiprocessors) *
                                     static_cast<size_t>((std::max(of_dense, of_sparq) + 255) / 256 * 256);
}

Status PlanDense(const AttentionProblem& problem, const DecodeDevice& device, DensePlan* plan) {
  DenseParams& x = plan->params;
  x = {};
  x.passes_per_list = PassesPerList(problem);
  x.heads_per_pass = HeadsPerPass(problem);
  x.passes = problem.batch * problem.num_kv_heads * x.passes_per_list;

  // Three tiles of K and V a warp, or two where shared memory is small, and, per head, the warps' results. One block a
  // multiprocessor: two of half as many warps would load as much at once and leave twice as many parts to merge.
  const int32_t tile = 2 * 16 * problem.head_dim * 2;
  const auto shared = [&](int32_t warps, int32_t stages) {
    return warps * (stages * tile + x.heads_per_pass * (problem.head_dim + 2) * 4);
  };
  x.warps = shared(kDenseWarps, 2) <= device.shared_of_block ? kDenseWarps : kDenseWarps / 2;
  x.stages = shared(x.warps, 3) <= device.shared_of_block ? 3 : 2;
  x.shared_bytes = shared(x.warps, x.stages);

  const int32_t step_tokens = x.warps * 16;
  x.steps = (problem.seq_k + step_tokens - 1) / step_tokens;
  const int64_t steps = int64_t{x.passes} * x.steps;
  if (steps >= std::numeric_limits<int32_t>::max()) {
    return {StatusCode::kUnsupported, "seq_k " + std::to_string(problem.seq_k) + ": all KV heads together have " +
                                          std::to_string(steps) + " steps of " + std::to_string(step_tokens) +
                                          " tokens, and a call takes fewer than 2^31; make several calls"};
  }
  // All of them are resident, because they wait for each other.
  ShareOut(static_cast<int32_t>(std::min<int64_t>(steps, device.num_multiprocessors)), &x);
  const int64_t bytes =
      int64_t{2} * SizeOf(problem.dtype) * problem.batch * problem.num_kv_heads * problem.seq_k * problem.head_dim;
  x.leaves_cache_first = bytes <= kCacheFriendlyBytes ? 1 : 0;
  x.message_bytes = x.heads_per_pass * problem.head_dim / 4 * kMessageColumnBytes;
  x.by_passes_per_list = DivideBy(x.passes_per_list);
  x.by_kv_heads = DivideBy(problem.num_kv_heads);
  x.by_steps = DivideBy(x.steps);

  plan->messages = CounterBytes(problem);
  plan->total = ZeroedBytes(problem, device);
  return {};
}

}  // namespace headscope::kernels::decode
