// SPDX-License-Identifier: Apache-2.0
// How quantised tensors lie in memory, and what the host hands to the FP8 kernel.
//
// Tensors are kept as *images*: pieces of 4 KB that lie in memory as the tensor cores read them from shared memory, so
// that a piece, or many in a row, comes by a plain bulk copy. Q, K and one copy of V (*rows*) have pieces of 32 tokens:
// 128 bytes a token, its 16-byte chunk c at c ^ token % 8, the tensor cores' 128-byte swizzle. The other copy of V
// (*columns*) has pieces of 32 tokens, transposed: 32 bytes a component, chunk c at c ^ component / 4 % 2, the 32-byte
// swizzle. There the tokens of a piece stand in the order in which weights stand in the accumulators of Q K^T: a
// thread's four weights of two neighbouring groups of 8 keys are four neighbouring bytes of an A operand (KeyAt).
#pragma once

#include <cstdint>

#include "hopper/kernel_params.h"

namespace headscope::kernels::fp8 {

constexpr int kHeadDim = 128;
constexpr int kPieceTokens = hopper::kSegmentRows;
constexpr int kPieceBytes = kPieceTokens * kHeadDim;

// Pieces of zeros behind the last key's: a tile of keys may begin there.
constexpr int kZeroPieces = 4;

// Byte b of a component in a piece of V's columns holds this key of the piece.
#ifdef __CUDACC__
__host__ __device__
#endif
    constexpr int
    KeyAt(int b) {
  return b / 16 * 16 + b / 2 % 2 * 8 + b % 16 / 4 * 2 + b % 2;
}

struct Fp8Params : hopper::KernelParams {
  const uint8_t* q_image;      // [batch * num_qo_heads, q_pieces, kPieceBytes]
  const uint8_t* k_image;      // [batch * num_kv_heads, k_pieces, kPieceBytes]
  const uint8_t* v_columns;    // likewise
  const uint8_t* v_rows;       // likewise
  const float* q_scale;        // [batch * num_qo_heads]: what a quantised value is multiplied by
  const float* k_scale;        // [batch * num_kv_heads]
  const float* v_scale;        // [batch * num_kv_heads]
  int32_t q_pieces, k_pieces;  // of a head
  int32_t num_kv_heads;
  bool half_output;  // O is fp16, not bf16
};

}  // namespace headscope::kernels::fp8
