// SPDX-License-Identifier: Apache-2.0
// FlexPrefill's picks (kernels/methods/flex_prefill.cpp has the definition), from the probe of the last 128 rows and
// the scores of block means: which way each head chooses, how many stripes of lines, which of them, which blocks of the
// map of means, and what every row block keeps of all that.
//
// Five launches, between which the queries of heads that choose by means get means and scores. A share's cut is found
// two bits at a time, three sums over all masses in turn, by a cluster of thread blocks per head and direction or map;
// sums are fp32 in one fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "select/block_scores.h"
#include "select/probe.h"

namespace headscope::kernels::selection {

// What a share keeps of a head's map: masses above the threshold, and of those that equal it the first `quota`.
struct MapCut {
  float mass;
  int32_t quota;
};

struct FlexPrefillParams {
  ProbeParams probe;         // one chunk, line mode
  BlockScoresParams blocks;  // of 128 queries and 128 keys
  int32_t num_lists = 0;     // batch * query heads
  int32_t num_lines = 0;     // columns and diagonals alike: visible keys
  double gamma = 0;          // share of single lines' and of the map's mass
  double tau = 0;            // largest divergence at which means choose
  int32_t least_stripes = 0;
  float* lines = nullptr;           // [list, direction, num_lines]
  float* stripes = nullptr;         // [list, direction, NumStripes()]
  uint8_t* by_means = nullptr;      // [list]
  float* map = nullptr;             // [list, MapBefore(row blocks)]
  MapCut* cuts = nullptr;           // [list]
  int32_t* ties_before = nullptr;   // [list, row block]: of the map's masses that equal the threshold
  uint64_t* stripe_bits = nullptr;  // [list, direction, words]
  uint64_t* bitmaps = nullptr;      // [list, row block, words]
  int32_t words = 0;                // BlockBitmapWords(NumStripes())

  constexpr int32_t NumStripes() const { return (num_lines + kStripe - 1) / kStripe; }
  // Of a row block's causal key blocks in the map; a ragged last row block has fewer.
  constexpr int32_t RoomOf(int32_t row_block) const {
    return (blocks.first_position + kStripe - 1) / kStripe + 1 + row_block;
  }
  constexpr int64_t MapBefore(int32_t row_block) const {
    return int64_t{row_block} * RoomOf(0) + int64_t{row_block} * (row_block - 1) / 2;
  }
  constexpr int64_t MapSize() const { return MapBefore(blocks.NumQueryBlocks()); }
};

// Stripes' and lines' masses, behind the probe.
cudaError_t LaunchLineMass(const FlexPrefillParams& params, cudaStream_t stream);
// Which way each head chooses, behind LaunchKeyMeans; and all else, behind LaunchWantedScores.
cudaError_t LaunchFlexDecision(const FlexPrefillParams& params, cudaStream_t stream);
cudaError_t LaunchFlexPrefill(const FlexPrefillParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::selection
