// SPDX-License-Identifier: Apache-2.0
// Quest's decode step on the GPU (Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference, section 3.3;
// docs/methods.md): least and largest key of every page of the cache, an upper bound of each page's scores from them,
// the best pages, attention over these. On compute capability 9.0 and later choosing and attending are one launch for
// up to 8 query heads a KV head and 8192 pages to choose from, where these and the chosen ones fit shared memory beside
// the tiles (of 8192 pages some 600 at head_dim 128) and the lists fill the GPU evenly; elsewhere they are a chain of
// launches without the host. Either can be captured in a CUDA graph and chooses the same pages. Every pointer is a
// device pointer; nothing synchronises or allocates.
//
// Method: over the components, max(q * least, q * largest) is max(q, 0) * largest + min(q, 0) * least, and a group's
// sum is that of its heads' positive and negative parts: one vector of 2 * head_dim a KV head, whatever the group, so
// the estimate costs the bytes of the bounds. The best pages are found by a search for the score that as many reach as
// are wanted, ties by lower page.
//
// Errors: as those of kernels/cuda_decode.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/pages_by_bounds.h"
#include "kernels/status.h"

namespace headscope::kernels {

using QuestCudaOptions = PagesByBounds;

// [batch, num_kv_heads, pages, 2, head_dim] in the problem's dtype: least and largest key of each page, component by
// component. 16-byte aligned; list_stride elements from one KV head to the next, a multiple of 8 with room for all
// pages.
struct CudaPageBounds {
  void* data = nullptr;
  int64_t list_stride = 0;
};

// Pages of a cache of seq_k tokens, the last of which may be partial; and how many of them a step attends to.
inline int32_t NumQuestPages(const AttentionProblem& problem, const QuestCudaOptions& options) {
  return (problem.seq_k - 1) / options.page_size + 1;
}
inline int32_t NumQuestPicks(const AttentionProblem& problem, const QuestCudaOptions& options) {
  return std::clamp(options.budget / options.page_size, 1, NumQuestPages(problem, options));
}

// Makes anew the bounds of all pages that have tokens from `first_token` on: 0 after a prompt, seq_k - 1 after a token.
// Looks at problem.k alone (shape as for DecodeQuestCuda). A NaN bounds nothing.
Status UpdatePageBoundsCuda(const AttentionProblem& problem, int32_t page_size, int32_t first_token,
                            const CudaPageBounds& bounds, void* stream);

// Bytes of scratch memory of a step on the current GPU, aligned to 256 bytes; any contents. 0 where the call refuses.
size_t QuestWorkspaceBytes(const AttentionProblem& problem, const QuestCudaOptions& options);

// One step. Shapes, strides and types as DecodeDenseCuda's (16 bits, head_dim 64 or 128), soft cap, sinks, lse and
// row_max included, but no window; v_head_dim as AttendSelectionCuda's, which attends the pages.
// chosen_pages: int32 [batch, num_kv_heads, NumQuestPicks], ascending, or null.
Status DecodeQuestCuda(const AttentionProblem& problem, const QuestCudaOptions& options, const CudaPageBounds& bounds,
                       const AttentionOutput& output, int32_t* chosen_pages, void* workspace, size_t workspace_bytes,
                       void* stream);

}  // namespace headscope::kernels
