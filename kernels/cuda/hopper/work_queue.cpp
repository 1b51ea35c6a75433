// SPDX-License-Identifier: Apache-2.0
#include "hopper/work_queue.h"

#include <algorithm>

#include "device_memory.h"
#include "hopper/work_order.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"

namespace headscope::kernels::hopper {
namespace {

// K and V of the heads in work at one time should leave room in the 50 or 60 MB of L2 for Q, O and the other sections'
// tail.
constexpr int64_t kSectionBytes = int64_t{32} << 20;

// With so few items a block no queue is made: ordering them costs two launches, some 4 us, and gains less. Lists differ
// in cost from head to head, so that with more of them dealing leaves blocks without work (a third of the time on real
// heads at 16K); where all keep everything items are known to fit.
constexpr int kDealtRounds = 4, kDealtDenseRounds = 8;

WorkOrderShape DivideIntoSections(const AttentionProblem& problem, int64_t bytes_per_kv_head,
                                  const KernelParams& params) {
  const int64_t kv_heads = std::clamp<int64_t>(kSectionBytes / bytes_per_kv_head, 1, problem.num_kv_heads);
  WorkOrderShape shape;
  shape.items_per_head = params.items_per_head;
  shape.num_heads = problem.batch * problem.num_qo_heads;
  shape.heads_per_section = static_cast<int32_t>(kv_heads) * problem.GroupSize();
  shape.sections_fit_cache = bytes_per_kv_head <= kSectionBytes;
  return shape;
}

void SetSections(const WorkOrderShape& shape, KernelParams* params) {
  params->num_sections = shape.NumSections();
  params->heads_per_section = shape.heads_per_section;
  params->sections_fit_cache = shape.sections_fit_cache;
}

// Calls launches(scratch) between the allocation of so many words and their release, all in the stream's order.
Status WithScratch(size_t words, const CurrentDevice& device, cudaStream_t stream,
                   const std::function<Status(int32_t*)>& launches) {
  cudaMemPool_t pool = nullptr;
  if (Status status = FindScratchPool(device.ordinal, &pool); !status.ok()) return status;
  void* scratch = nullptr;
  Status status = CudaStatus(cudaMallocFromPoolAsync(&scratch, words * sizeof(int32_t), pool, stream),
                             "allocating " + std::to_string(words * sizeof(int32_t)) + " bytes for the work order");
  if (!status.ok()) return status;
  status = launches(static_cast<int32_t*>(scratch));
  const cudaError_t freed = cudaFreeAsync(scratch, stream);
  if (status.ok()) status = CudaStatus(freed, "freeing the work order");
  return status;
}

}  // namespace

void CountItems(const AttentionProblem& problem, const SparseIndexView& index, KernelParams* params) {
  params->items_per_head = (problem.seq_q + kItemRows - 1) / kItemRows;
  params->num_items = params->items_per_head * problem.num_qo_heads * problem.batch;
  params->lists_per_head = index.NumRowTiles();
  params->group_size = problem.GroupSize();
  params->by_items_per_head = DivideBy(params->items_per_head);
  params->by_heads = DivideBy(problem.num_qo_heads * problem.batch);
  params->by_sequence_heads = DivideBy(problem.num_qo_heads);
  params->by_group_size = DivideBy(params->group_size);
}

bool TakesDenseKernels(const SparseIndexView& index) {
  return index.rule.kind == MaskKind::kCausal && int64_t{index.first_position} + index.seq_q == index.seq_k;
}

bool MayKeepEverything(const SparseIndexView& index) {
  const bool few_runs = index.columns_size == 0 && index.runs_size <= 2 * index.NumLists();
  return TakesDenseKernels(index) && index.tile_rows == kItemRows && few_runs;
}

Status LaunchWithQueue(const AttentionProblem& problem, const SparseIndexView& index, int64_t bytes_per_kv_head,
                       const CurrentDevice& device, const std::string& what, cudaStream_t stream, KernelParams* params,
                       const std::function<cudaError_t(int)>& launch, bool find_dense) {
  const int num_blocks = std::min(device.num_multiprocessors, params->num_items);
  if (params->num_items <= kDealtRounds * num_blocks) {
    return CudaStatus(launch(num_blocks), what + " (" + Describe(problem) + ")");
  }

  const WorkOrderShape shape = DivideIntoSections(problem, bytes_per_kv_head, *params);
  const size_t items = static_cast<size_t>(params->num_items);
  const size_t words = 2 * items + 2 + (find_dense ? static_cast<size_t>(shape.NumSections()) : 0);
  return WithScratch(words, device, stream, [&](int32_t* costs) {
    params->order = costs + items;
    params->next_item = costs + 2 * items;
    int32_t* const dense_sections = find_dense ? params->next_item + 2 : nullptr;
    params->dense_sections = dense_sections;
    SetSections(shape, params);
    Status status = LaunchWorkOrder(index, shape, costs, costs + items, params->next_item, dense_sections, stream);
    if (status.ok()) status = CudaStatus(launch(num_blocks), what + " (" + Describe(problem) + ")");
    return status;
  });
}

Status LaunchOnEverything(const AttentionProblem& problem, int32_t item_rows, int64_t bytes_per_kv_head,
                          const CurrentDevice& device, const std::string& what, cudaStream_t stream,
                          KernelParams* params, const std::function<cudaError_t(int)>& launch) {
  const int64_t num_items = (int64_t{problem.seq_q} + item_rows - 1) / item_rows * problem.num_qo_heads * problem.batch;
  const int num_blocks = static_cast<int>(std::min<int64_t>(device.num_multiprocessors, num_items));
  WorkOrderShape shape = DivideIntoSections(problem, bytes_per_kv_head, *params);
  if (num_items <= kDealtDenseRounds * num_blocks) {
    // The longest first, of all heads.
    shape.heads_per_section = shape.num_heads;
    shape.sections_fit_cache = false;
    SetSections(shape, params);
    return CudaStatus(launch(num_blocks), what + " (" + Describe(problem) + ")");
  }
  SetSections(shape, params);
  constexpr size_t kWords = 2;
  return WithScratch(kWords, device, stream, [&](int32_t* next_item) {
    params->next_item = next_item;
    Status status = CudaStatus(cudaMemsetAsync(next_item, 0, kWords * sizeof(int32_t), stream), "clearing a queue");
    if (status.ok()) status = CudaStatus(launch(num_blocks), what + " (" + Describe(problem) + ")");
    return status;
  });
}

}  // namespace headscope::kernels::hopper
