// SPDX-License-Identifier: Apache-2.0
// Block-sparse: pool, pick, write.
#include <algorithm>
#include <limits>
#include <string>

#include "current_device.h"
#include "select/pooled_blocks.h"
#include "select/selection_call.h"

namespace headscope::kernels::selection {

Status SelectBlockSparse(Call* call) {
  const AttentionProblem& problem = call->problem;
  PooledBlocksParams params;
  SetTensors(*call, &params);
  params.batch = problem.batch;
  params.num_visible_keys = call->NumVisibleKeys();
  params.num_query_blocks = (problem.seq_q + kPoolRows - 1) / kPoolRows;
  params.num_key_blocks = (params.num_visible_keys + kPoolRows - 1) / kPoolRows;
  params.num_kept = call->values.Integer("n_blocks");
  params.is_bf16 = problem.dtype == DType::kBFloat16;
  params.words = params.num_key_blocks / 64 + 1;

  // Runs begin where the halves' blocks change: at most twice per kept block of either half, and at most at every
  // block; the diagonal cuts a run of each half.
  const int64_t most_changes = std::min<int64_t>(int64_t{4} * params.num_kept, params.num_key_blocks);
  const ListArrays arrays = TakeLists(call, call->view.NumLists(), most_changes + 3, 0);
  const int64_t group_pieces = GroupPieces(problem.head_dim);
  const int64_t num_kv_lists = int64_t{problem.batch} * problem.num_kv_heads;
  params.q_terms = call->workspace.Take<uint4>(call->NumHeads() * TermGroups(params.num_query_blocks) * group_pieces);
  params.k_terms = call->workspace.Take<uint4>(num_kv_lists * TermGroups(params.num_key_blocks) * group_pieces);
  params.k_factors = call->workspace.Take<float>(num_kv_lists * params.FactorPitch());
  params.progress = call->workspace.Take<int32_t>(1 + params.NumStages());
  params.bitmaps = call->workspace.Take<uint64_t>(call->NumHeads() * params.num_query_blocks * params.words);
  // Pieces of work are counted in 32 bits.
  const int64_t num_blocks = call->NumHeads() * params.num_query_blocks + num_kv_lists * params.num_key_blocks;
  if (num_blocks > std::numeric_limits<int32_t>::max()) {
    return {StatusCode::kUnsupported, "the number of blocks of 64 rows in Q and K is " + std::to_string(num_blocks) +
                                          ": the GPU selector takes 2147483647; split the batch."};
  }
  if (!call->launches) return {};

  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  int shared_bytes = 0;
  Status status =
      CudaStatus(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device.ordinal),
                 "asking for the GPU's shared memory");
  if (!status.ok()) return status;
  const int32_t queries = QueryBlocksPerThreadBlock(params, static_cast<size_t>(shared_bytes));
  if (queries == 0) {
    const int64_t most = int64_t{MostKeyBlocks(problem.head_dim, static_cast<size_t>(shared_bytes))} * kPoolRows;
    return {StatusCode::kUnsupported, "first_position + seq_q is " + std::to_string(params.num_visible_keys) +
                                          ": block-sparse selection on this GPU takes " + std::to_string(most) +
                                          " keys; select on the CPU."};
  }
  status = LaunchStatus(LaunchPickBlocks(params, queries, device.num_multiprocessors, call->stream), "PickBlocksKernel",
                        *call);
  if (!status.ok()) return status;
  const BlockLists lists{params.bitmaps, params.num_query_blocks, params.words};
  return LaunchStatus(LaunchBlockLists(lists, ShapeOfLists(*call), arrays, call->stream), "WriteListsKernel", *call);
}

}  // namespace headscope::kernels::selection
