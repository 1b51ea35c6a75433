#include "decode/dense_plan.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "cuda_error.h"
#include "current_device.h"

namespace headscope::kernels::decode {

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

DensePlan PlanDense(const AttentionProblem& problem, const DecodeDevice& device) {
  DensePlan plan{};
  DenseParams& x = plan.params;
  const int32_t group = problem.GroupSize();
  x.passes_per_list = (group + kMaxDenseGroup - 1) / kMaxDenseGroup;
  x.heads_per_pass = (group + x.passes_per_list - 1) / x.passes_per_list;
  x.passes = problem.batch * problem.num_kv_heads * x.passes_per_list;
  x.steps = (problem.seq_k + kDenseStep - 1) / kDenseStep;

  // Three tiles of K and V a warp, or two where shared memory is small; and, per head, the warps' results or, when a
  // pass is merged, a factor for each of its parts: no more than there are blocks.
  constexpr int32_t kMostResident = 2;
  const int32_t tile = 2 * 16 * problem.head_dim * 2;
  const int32_t floats = std::max(kDenseWarps * (problem.head_dim + 2), kMostResident * device.num_multiprocessors);
  const auto shared = [&](int32_t stages) { return kDenseWarps * stages * tile + x.heads_per_pass * floats * 4; };
  x.stages = shared(3) <= device.shared_of_block ? 3 : 2;
  x.shared_bytes = shared(x.stages);
  constexpr int32_t kSystemBytes = 1024;  // of every resident block
  const int32_t resident =
      std::clamp(device.shared_of_multiprocessor / (x.shared_bytes + kSystemBytes), 1, kMostResident);
  const int64_t steps = int64_t{x.passes} * x.steps;
  x.blocks = static_cast<int32_t>(std::min<int64_t>(steps, int64_t{resident} * device.num_multiprocessors));
  // A share has at least steps / blocks steps, so a pass meets at most so many shares.
  x.parts = static_cast<int32_t>((x.steps - 1) / (steps / x.blocks) + 2);

  plan.partial = CounterBytes(problem);
  plan.total = plan.partial + size_t{4} * static_cast<size_t>(x.passes) * static_cast<size_t>(x.parts) *
                                  kMaxDenseGroup * static_cast<size_t>(problem.head_dim + 2);
  return plan;
}

}  // namespace headscope::kernels::decode
