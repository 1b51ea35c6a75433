// SPDX-License-Identifier: Apache-2.0
// Prefill attention in 8-bit floats (e4m3) on Hopper: Q, K and V are quantised on the GPU with one scale a head, and
// attended to on any SparseIndex; both products run on the tensor cores in e4m3 with fp32 accumulators. O and LSE come
// out as the 16-bit executor's do. Twice the tensor cores' rate, for the error of three bits of mantissa.
//
// Quantisation. A head's scale is its largest finite magnitude over 448, the largest of e4m3, or 1 where that is 0; a
// value x becomes the e4m3 nearest to x / scale (ties to even). NaN and infinities become NaN, and have no say in the
// scale. What is lost by it is the caller's to judge: AttendFp8Cuda's own error is against the quantised tensors.
//
// Attention. Weights are rounded to e4m3 as well, relative to a running reference of each row; weights below 2^-14 of a
// row's largest are lost. fp32 accumulators of e4m3 products keep some 14 bits. Against float64 on the quantised
// tensors see docs/kernels/fp8.md.
//
// Source: FlashAttention-3 (Shah et al. 2024), section 3.3, for FP8 attention on Hopper; the layouts are our own.
//
// Errors of all calls: kInvalidArgument and kUnsupported name the field, its value and what is allowed; kDeviceMissing
// without a GPU or in a build without CUDA, kOutOfMemory, kDeviceError. Nothing is launched where arguments are
// refused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Where the parts of quantised tensors lie, in bytes from the start of their memory, and their sizes. Heads are counted
// over all sequences, a sequence's one after the other. Tensors lie in pieces of 32 tokens, 4096 bytes each.
// - q, k and v_rows: [head, piece, 32 tokens, 128 components]; 16-byte chunk c of token t's 128 bytes lies at chunk
//   c ^ t % 8.
// - v_columns: the values once more, [head, piece, 128 components, 32 bytes]; chunk c of component d's 32 bytes lies at
//   chunk c ^ d / 4 % 2, and byte b of them (counted before that) is token b / 16 * 16 + b / 2 % 2 * 8 + b % 16 / 4 * 2
//   + b % 2 of the piece.
// Tokens behind the last are zeros. Keys and values have at least four pieces of those.
struct Fp8Layout {
  size_t q_scale = 0;  // fp32 [batch * num_qo_heads]
  size_t k_scale = 0;  // fp32 [batch * num_kv_heads]
  size_t v_scale = 0;  // fp32 [batch * num_kv_heads]
  size_t q = 0;
  size_t k = 0;
  size_t v_rows = 0;
  size_t v_columns = 0;
  size_t bytes = 0;      // of all
  int32_t q_pieces = 0;  // of a head
  int32_t k_pieces = 0;  // of a KV head, also of its values
};

// The layout for a problem's shape; looks at no tensor and needs no GPU. kUnsupported: a head_dim or v_head_dim other
// than 128.
Status LayOutFp8(const AttentionProblem& problem, Fp8Layout* layout);

// Quantises q, k and v (bf16 or fp16, device pointers, aligned to 16 bytes in base and strides) into `tensors`:
// LayOutFp8's bytes of device memory, aligned to 256. Asynchronous on `stream` (a cudaStream_t), can be captured in a
// CUDA graph, allocates nothing, the same bits every time. Compute capability 9.0.
Status QuantiseFp8Cuda(const AttentionProblem& problem, void* tensors, size_t bytes, void* stream);

// O, LSE and, on request, the rows' largest scores of the quantised tensors on the index's kept set: O = softmax(scale
// * q k^T) v with the quantised values times their scales. problem: shape, dtype (bf16 or fp16, that of O) and scale;
// its tensors are not looked at. tensors: what QuantiseFp8Cuda made of a problem of this shape. Every pointer is on the
// current device. Asynchronous, no host synchronisation, the same bits every time; memory as AttendCuda's (8 bytes per
// 128 query rows of a head, from the same pool). NaN in keys and values that no row keeps does not matter; in others it
// goes where AttendCuda lets it go.
//
// kUnsupported: a GPU of another compute capability than 9.0, fp32, a soft cap, sinks, a window, another head_dim or
// v_head_dim than 128.
Status AttendFp8Cuda(const AttentionProblem& problem, const void* tensors, size_t bytes, const SparseIndexView& index,
                     const AttentionOutput& output, void* stream);

}  // namespace headscope::kernels
