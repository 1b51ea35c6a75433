// SPDX-License-Identifier: Apache-2.0
// Decode over any selection on the GPU: tokens or pages per KV head, a weight per token, a mean-value term
// (kernels/decode_selection.h says the formula). Whatever chose the tokens, this attends them; what chooses and attends
// in one launch, dense decode and SparQ, stands in kernels/cuda_decode.h.
//
// Method: lists are cut into pieces, so that few long lists fill the GPU; a block takes a piece for up to eight query
// heads of the KV head, which share what it reads of K and V, and a second, small launch merges the pieces. 16-bit
// elements of head_dim 64 and 128, of keys and values alike, go through rings in shared memory to the tensor cores,
// others through registers to fp32 arithmetic. The floor is the bytes of the selected rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/cuda_memory.h"
#include "kernels/decode_selection.h"
#include "kernels/status.h"

namespace headscope::kernels {

// A DecodeSelection whose arrays lie on the GPU.
struct CudaSelection {
  int32_t page_size = 1;
  int32_t weight_rows = 1;
  int64_t num_pages = 0;
  const int64_t* page_begin = nullptr;
  const int32_t* pages = nullptr;
  const float* weights = nullptr;  // null: every weight is 1
  const float* alpha = nullptr;    // null, and mean_value as well: there is no mean-value term
  const float* mean_value = nullptr;
  int32_t longest_list = 0;   // tokens
  int32_t pages_of_list = 0;  // of every list, where they have equally many; 0: they differ, or nobody knows
  bool dense = false;         // every list names every token, unweighted and without a mean-value term
};

// Checks a host selection of the problem (whose tensors are not looked at) and copies it to the current GPU, into
// the buffers' memory where that is large enough. Synchronous. Errors: those of DecodeCpu for a selection,
// kOutOfMemory, the GPU's.
struct CudaSelectionBuffers {
  CudaSelection view;
  DeviceMemory allocation;
  size_t bytes = 0;
};
Status UploadSelection(const AttentionProblem& problem, const DecodeSelection& selection,
                       CudaSelectionBuffers* buffers);

// Every token of the problem's cache, in one page a list, unweighted: dense decode, of as few numbers as can be.
inline DecodeSelection WholeCache(const AttentionProblem& problem) {
  const int64_t lists = int64_t{problem.batch} * problem.num_kv_heads;
  DecodeSelection all;
  all.batch = problem.batch;
  all.num_qo_heads = problem.num_qo_heads;
  all.num_kv_heads = problem.num_kv_heads;
  all.page_size = problem.seq_k;
  all.pages.assign(static_cast<size_t>(lists), 0);
  for (int64_t list = 0; list <= lists; ++list) all.page_begin.push_back(list);
  return all;
}

// Bytes of scratch memory that a call with this selection needs on the current GPU, aligned to 256 bytes; 0 where it
// needs none, and for one that it will refuse. For a dense selection it is DecodeDenseCuda's, zeroed by the caller once
// and left ready for the next call; other selections need no zeros and leave anything: keep the two apart.
size_t SelectionWorkspaceBytes(const AttentionProblem& problem, const CudaSelection& selection);

// One decode step. seq_q is 1 and first_position seq_k - 1; q [batch, num_qo_heads, 1, head_dim], k [batch,
// num_kv_heads, seq_k, head_dim] and v [batch, num_kv_heads, seq_k, v_head_dim] in bf16, fp16 or fp32, 16-byte aligned,
// strides multiples of 8 elements; head_dim any multiple of 8 up to 576 and v_head_dim up to 512. output.o [batch,
// num_qo_heads, 1, v_head_dim] in the problem's dtype, output.lse and output.row_max fp32 or null, the latter
// kUnsupported where the selection has weights. Soft cap; a window, outside of which no row is read, whatever the lists
// name; sinks as in DecodeDenseCuda. All pointers but the sinks' are the device's; nothing synchronises or allocates.
// Compute capability 8.0 or newer. A dense selection that DecodeDenseCuda takes (16 bits, head_dim 64 or 128) is run by
// it. Errors: as those of kernels/cuda_decode.h.
Status AttendSelectionCuda(const AttentionProblem& problem, const CudaSelection& selection,
                           const AttentionOutput& output, void* workspace, size_t workspace_bytes, void* stream);

}  // namespace headscope::kernels
