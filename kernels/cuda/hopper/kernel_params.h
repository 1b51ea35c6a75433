// SPDX-License-Identifier: Apache-2.0
// What the host hands to the Hopper kernel: by value, so that the TMA descriptors lie in constant memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "divisor.h"
#include "head_sinks.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::hopper {

constexpr int kItemRows = 128;    // query rows of one work item: two consumer warpgroups of 64
constexpr int kSegmentRows = 32;  // keys of one segment, the smallest piece that TMA brings
constexpr int kOutputRows = 16;   // rows that one consumer warp finishes

enum BoxKind { kWholeTile, kTwoSegments, kOneSegment, kBoxKinds };

// A K or V tensor as the column gather reads it.
struct GatherSource {
  const void* data;
  int64_t batch_stride;  // elements, as all strides here
  int64_t head_stride;
  int64_t row_stride;
};

struct KernelParams {
  CUtensorMap q;  // boxes of as many rows as come at once
  CUtensorMap o;  // boxes of kOutputRows rows
  CUtensorMap k_boxes[kBoxKinds];
  CUtensorMap v_boxes[kBoxKinds];
  GatherSource k_gather;
  GatherSource v_gather;
  SparseIndexView index;  // device pointers
  // [num_items] work items, in the order in which thread blocks take them; null: dealt to the blocks (ItemQueue), or
  // taken by next_item[1] alone (LaunchOnEverything)
  const int32_t* order;
  int32_t* next_item;  // [2]: the heads of the queue and of the dense kernel's; null: dealt
  // [num_sections] of the queue: whether all heads of a section keep everything. Where all do, the dense kernel takes
  // the items in place of this one. Null: nobody asks for that.
  const int32_t* dense_sections;
  int32_t num_sections;
  int32_t heads_per_section;
  bool sections_fit_cache;
  float* lse;  // [batch, num_qo_heads, seq_q] or null
  int32_t num_items;
  int32_t items_per_head;
  int32_t lists_per_head;
  int32_t group_size;
  Divisor by_items_per_head, by_heads, by_group_size;  // by_heads: all sequences' query heads
  Divisor by_sequence_heads;                           // the query heads of one sequence
  int32_t head_dim;   // as stored, of q and k; shared memory holds it padded with zeros to the kernel's
  int32_t value_dim;  // of v and o, likewise
  float score_scale;  // 0 without a soft cap; else scores become soft_cap * tanh(score_scale * q.k)
  float soft_cap;
  float scale_log2;  // what the kernel multiplies a (capped) score by to get an exponent of two
  HeadSinks sinks;
  float* row_max;  // as lse, or null; kernels whose traits have kHasRowMax write it
};

}  // namespace headscope::kernels::hopper
