// SPDX-License-Identifier: Apache-2.0
// XAttention's estimate: attention between groups of `stride` queries and of `stride` keys by the sums of their
// antidiagonals, and its mass in blocks of 128 x 128 tokens (kernels/methods/x_attention.cpp has the definition).
//
// The sum of an antidiagonal is a product of rows of stride * head_dim components, so all of them are one matrix
// product, of a stride-th of dense attention's first one. A thread block takes 128 query groups against 256 key groups
// at a time. What a group's row gives to a key block is kept as the logarithm of a sum of exponentials, so scores are
// never stored and the product is made once; the second launch knows the rows' denominators and adds the masses up.
//
// Cost: head_dim * seq_q * keys / stride operations a head for causal attention. Memory: 4 bytes for every query group
// and causal key block.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention_problem.h"

namespace headscope::kernels::selection {

constexpr int32_t kAntidiagonalBlock = 128;  // tokens of a block, of queries and of keys
constexpr int32_t kTileQueryGroups = 128;
constexpr int32_t kTileKeyGroups = 256;
constexpr int32_t kLeastComponents = 4 * 64;  // of a group's row
// Tiles are taken in bands of so many query tiles, so that those under way share their queries and keys in L2.
constexpr int32_t kBandTiles = 8;

struct AntidiagonalParams {
  StridedTensor<const void> q;
  StridedTensor<const void> k;
  int32_t num_lists = 0;  // batch * query heads
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t seq_q = 0;
  int32_t first_position = 0;
  int32_t num_visible_keys = 0;
  int32_t stride_log2 = 0;  // 2 to 6
  // Scores in base 2: soft_cap == 0: dot * score_scale; else cap * tanh(dot * score_scale).
  float score_scale = 0;
  float cap = 0;
  int64_t tickets_per_list = 0;  // CountTickets()
  float* partials = nullptr;  // [list, PartialsPerList()], of row block b from PartialsBefore(b) on: [key block, group]
  float* masses = nullptr;    // [list, row block, NumKeyBlocks()]
  unsigned long long* progress = nullptr;  // tiles taken

  constexpr int32_t NumRowBlocks() const { return (seq_q + kAntidiagonalBlock - 1) / kAntidiagonalBlock; }
  constexpr int32_t NumKeyBlocks() const { return (num_visible_keys + kAntidiagonalBlock - 1) / kAntidiagonalBlock; }
  constexpr int32_t NumQueryGroups() const { return ((seq_q - 1) >> stride_log2) + 1; }
  constexpr int32_t GroupsPerBlock() const { return kAntidiagonalBlock >> stride_log2; }
  // Key groups that a query group sees: causality is that of its last row.
  constexpr int32_t SeenGroups(int32_t group) const {
    const int32_t end = (group + 1) << stride_log2;
    return ((first_position + (end < seq_q ? end : seq_q) - 1) >> stride_log2) + 1;
  }
  // Key blocks for which a row block has room; a ragged last one sees fewer.
  constexpr int32_t RoomOf(int32_t row_block) const {
    return (first_position + kAntidiagonalBlock - 1) / kAntidiagonalBlock + 1 + row_block;
  }
  constexpr int64_t PartialsBefore(int32_t row_block) const {
    return (int64_t{row_block} * RoomOf(0) + int64_t{row_block} * (row_block - 1) / 2) * GroupsPerBlock();
  }
  constexpr int64_t PartialsPerList() const { return PartialsBefore(NumRowBlocks()); }
  // Key tiles that a band is given, some of which none of its rows may see.
  constexpr int32_t KeyTilesOfBand(int32_t band) const {
    constexpr int32_t kBandGroups = kBandTiles * kTileQueryGroups;
    return ((first_position >> stride_log2) + 2 + kTileKeyGroups - 1) / kTileKeyGroups +
           (band + 1) * (kBandGroups / kTileKeyGroups);
  }
  // Places in the order of work: tiles, and some that hold none.
  constexpr int64_t CountTickets() const {
    constexpr int32_t kBandGroups = kBandTiles * kTileQueryGroups;
    int64_t count = 0;
    for (int32_t band = 0; band < (NumQueryGroups() + kBandGroups - 1) / kBandGroups; ++band)
      count += int64_t{KeyTilesOfBand(band)} * kBandTiles;
    return count;
  }
};

// The products, for tensors of bf16 or fp16: by mma.sync, or by wgmma on compute capability 9.0. Then the masses.
cudaError_t LaunchAntidiagonalBf16(const AntidiagonalParams& params, int num_multiprocessors, cudaStream_t stream);
cudaError_t LaunchAntidiagonalFp16(const AntidiagonalParams& params, int num_multiprocessors, cudaStream_t stream);
cudaError_t LaunchAntidiagonalHopperBf16(const AntidiagonalParams& params, int num_multiprocessors,
                                         cudaStream_t stream);
cudaError_t LaunchAntidiagonalHopperFp16(const AntidiagonalParams& params, int num_multiprocessors,
                                         cudaStream_t stream);
cudaError_t LaunchBlockMass(const AntidiagonalParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::selection
