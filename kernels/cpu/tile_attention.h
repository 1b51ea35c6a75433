// SPDX-License-Identifier: Apache-2.0
// Working space of one thread of the attention executors, and what a tile's result is. Independent of the instruction
// set.
#pragma once

#include <cstdint>

#include "aligned_floats.h"
#include "panel.h"

namespace headscope::kernels {

inline constexpr int32_t kMaxTileRows = 128;
inline constexpr int32_t kMaxTilePanels = kMaxTileRows / kPanelLanes;
// Keys per online-softmax step: their weights (128 * 64 * 4 bytes = 32 KiB) and rows stay in L2, and the output is
// rescaled rarely.
inline constexpr int32_t kBlockKeys = 128;
// A run with at least this many keys left is read where it lies; shorter ones are collected into one block, so that
// many short runs and single columns cost no more steps than one long run.
inline constexpr int32_t kDirectKeys = 64;

struct TileScratch {
  // May throw std::bad_alloc.
  TileScratch(int32_t head_dim, int32_t v_head_dim)
      : q(AllocateFloats(kMaxTilePanels * PanelFloats(1, head_dim))),
        o(AllocateFloats(kMaxTilePanels * PanelFloats(1, v_head_dim))),
        staging(AllocateFloats(PanelFloats(1, head_dim))),
        scores(AllocateFloats(int64_t{kBlockKeys} * kPanelLanes)),
        keys(AllocateFloats(int64_t{kBlockKeys} * head_dim)),
        values(AllocateFloats(int64_t{kBlockKeys} * v_head_dim)) {}

  AlignedFloats q;                          // [panel][head_dim][kPanelLanes], in the units of `maximum`
  AlignedFloats o;                          // [panel][v_head_dim][kPanelLanes], not yet divided by `sum`
  AlignedFloats staging;                    // [kPanelLanes, head_dim]
  AlignedFloats scores;                     // [kBlockKeys][kPanelLanes]
  AlignedFloats keys;                       // [kBlockKeys, head_dim] collected or converted keys
  AlignedFloats values;                     // [kBlockKeys, v_head_dim]
  alignas(64) float maximum[kMaxTileRows];  // of the scores so far, base 2; -inf before the first
  alignas(64) float sum[kMaxTileRows];      // of 2^(score - maximum)
  alignas(64) float decay[kPanelLanes];     // what the last step did to `o` and `sum`
};

}  // namespace headscope::kernels
