// SPDX-License-Identifier: Apache-2.0
// Decode on the GPU: one new query token per sequence against its KV cache, dense or by SparQ, split over the sequence
// so that batch 1 fills the GPU. Every pointer is a device pointer; nothing synchronises with the host and nothing is
// allocated, so a step can be captured in a CUDA graph. A call takes at most 65535 KV heads over all sequences.
//
// SparQ (Ribar et al., sections 3 and 4; docs/methods.md) in one launch: each thread block reads r rows of a
// component-major copy of K over a span of tokens, makes the approximate scores and keeps the span's best; the spans'
// lists of a KV head are merged into the exact top k, whose rows of K and V are read and mixed with the mean value.
// With one query head a KV head the last to finish merges or, where no multiprocessor has two spans, the last span's
// block; with more, the blocks of a KV head wait for each other's normalisers. Dense is one launch as well: blocks take
// nearly equal shares of all sequences, and those that share a KV head merge a slice of its output each. Dense, and
// SparQ where blocks wait for each other, are cooperative launches: they begin when all of their blocks, two or one a
// multiprocessor, have room beside what else runs on the GPU.
//
// Errors of all calls: kInvalidArgument and kUnsupported name the field, its value and what is allowed; kDeviceMissing
// and kDeviceError are the GPU's. After an error nothing has been launched and nothing has been written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/estimated_top_tokens.h"
#include "kernels/status.h"

namespace headscope::kernels {

using SparqCudaOptions = EstimatedTopTokens;

// K once more, component-major, for the estimate: [batch, num_kv_heads, head_dim, >= seq_k] in the problem's dtype,
// tokens contiguous, a component's tokens component_stride elements behind those of the one before, room for seq_k
// rounded up to 8. All strides count elements and are multiples of 8; 16-byte aligned. Decode reads it (without it,
// data is null and the estimate reads whole rows of K), AppendTokenCuda and UpdateSparqCuda write it.
struct TransposedKeys {
  void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t component_stride = 0;
};

// Bytes of scratch memory that a decode call of this shape needs at most (dense or SparQ) on the current GPU; 0 for a
// shape that the call will refuse. The memory is aligned to 256 bytes, as cudaMalloc's is; the caller zeroes it once
// per batch and numbers of query and KV heads; every call leaves it ready for the next, dense or SparQ, of any seq_k
// that it is large enough for. One stream at a time may use it.
size_t DecodeWorkspaceBytes(const AttentionProblem& problem, const SparqCudaOptions& options);

// Attends every key. seq_q is 1 and first_position seq_k - 1; q [batch, num_qo_heads, 1, head_dim], k and v [batch,
// num_kv_heads, seq_k, head_dim] in bf16 or fp16, 16-byte aligned, their strides multiples of 8 elements; head_dim 64
// or 128, of values as well, any number of query heads per KV head (every 8 of them read K and V once). output.o
// [batch, num_qo_heads, 1, head_dim] in the problem's dtype, output.lse and output.row_max fp32 or null. Soft cap; a
// window, whose tokens alone are read; sinks of at most 128 query heads, which the launch takes along: a captured graph
// keeps those of its capture. Compute capability 8.0 or newer.
Status DecodeDenseCuda(const AttentionProblem& problem, const AttentionOutput& output, void* workspace,
                       size_t workspace_bytes, void* stream);

// The same by SparQ, with no soft cap, window, sinks, lse or row_max, and at most 16 query heads per KV head; with more
// than one, seq_k is at most 4096 (groups up to 4) or 2048 tokens times the number of multiprocessors, because the
// blocks of a KV head wait for each other. mean_value: fp32 [batch, num_kv_heads, head_dim], the running mean of all V
// rows (see AppendTokenCuda); may be null when options.mean_value is false. chosen_tokens: int32 [batch, num_kv_heads,
// num_tokens], ascending, or null: what was attended (the first min(num_tokens, seq_k) of each row are written).
Status DecodeSparqCuda(const AttentionProblem& problem, const SparqCudaOptions& options,
                       const TransposedKeys& transposed, const float* mean_value, const AttentionOutput& output,
                       int32_t* chosen_tokens, void* workspace, size_t workspace_bytes, void* stream);

// The write side of a step: copies the new token's row of K into the component-major copy and moves the running mean of
// V, mean += (v - mean) / seq_k, fp32 [batch, num_kv_heads, head_dim]. Either may be left out (null), not both. The row
// must already stand in the cache at position seq_k - 1, so problem.seq_k counts it; problem.q is not looked at.
Status AppendTokenCuda(const AttentionProblem& problem, const TransposedKeys& transposed, float* mean_value,
                       void* stream);

// The same of all tokens from first_token on: 0 after a prompt, which makes copy and mean anew, whatever stands there;
// otherwise the mean is that of the tokens before, which stay as they are in the copy. Of one token behind others it is
// AppendTokenCuda, bit for bit. Any cache: nothing but the new tokens' rows is read, and nothing but their places
// written. The sums are in a fixed order: the same call gives the same bits.
//
// Floor: bytes. Per KV head and new token, each key is read and written, each value read.
//
// workspace: of UpdateSparqWorkspaceBytes(), 0 without a mean, aligned to 256 bytes; any contents, and it leaves
// anything. What serves a cache of some length serves every shorter one.
Status UpdateSparqCuda(const AttentionProblem& problem, int32_t first_token, const TransposedKeys& transposed,
                       float* mean_value, void* workspace, size_t workspace_bytes, void* stream);
size_t UpdateSparqWorkspaceBytes(const AttentionProblem& problem);

}  // namespace headscope::kernels
