// SPDX-License-Identifier: Apache-2.0
// One slice of a decode step, and the working space of the thread that attends it. Independent of the instruction set.
#pragma once

#include <algorithm>
#include <cstdint>

#include "aligned_floats.h"

namespace headscope::kernels {

// Query heads of one KV head that share a pass over its keys.
inline constexpr int32_t kMaxSliceRows = 32;
// Tokens of a slice. Fixed, so that results do not depend on the number of threads; 512 keys of 128 dimensions in fp32
// are 512 KiB, some tens of microseconds of one core, and beginning and merging a slice takes a fraction of one.
inline constexpr int32_t kSliceTokens = 512;
// Keys per online-softmax step: their values stay in L1 while the query heads pass over them in turn, and what is
// fetched ahead of one step is no more than the processor can wait for at once.
inline constexpr int32_t kSliceBlock = 32;

struct DecodeSlice {
  int32_t sequence;
  int32_t head;  // first query head
  int32_t num_heads;
  // [count], strictly increasing; where there are pages, filled by the thread that attends the slice.
  const int32_t* tokens;
  int64_t count;
  // Of the slice's first token, for its first query head; null: every weight is 1.
  const float* weights;
  int64_t weight_stride;  // to the next query head's; 0: they share the weights
};

// Where a slice's result goes, to be merged with those of the list's other slices.
struct SliceOutput {
  float* o;        // [num_heads, v_head_dim]
  float* lse;      // [num_heads], natural log; -inf for a slice without keys
  float* row_max;  // [num_heads], largest score
};

struct SliceScratch {
  // May throw std::bad_alloc. `rows`: at most so many query heads a slice.
  SliceScratch(int32_t rows, int32_t head_dim, int32_t v_head_dim)
      : row_floats((head_dim + 15) / 16 * 16),
        o_floats((v_head_dim + 15) / 16 * 16),
        q(AllocateFloats(rows * row_floats)),
        o(AllocateFloats(rows * o_floats)),
        scores(AllocateFloats(int64_t{rows} * kSliceBlock)),
        log_weights(AllocateFloats(kSliceBlock)) {
    std::fill_n(scores.get(), int64_t{rows} * kSliceBlock, 0.0f);  // what lies behind a short block is read, not used
  }

  const int64_t row_floats;                  // head_dim, rounded up to whole vectors of any instruction set
  const int64_t o_floats;                    // v_head_dim, likewise
  AlignedFloats q;                           // [rows, row_floats], in the units of `maximum`; zeros behind head_dim
  AlignedFloats o;                           // [rows, o_floats], not yet divided by `sum`
  AlignedFloats scores;                      // [rows, kSliceBlock]
  AlignedFloats log_weights;                 // [kSliceBlock], base 2
  int32_t tokens[kSliceTokens];              // of a slice of pages
  alignas(64) float maximum[kMaxSliceRows];  // of the scores so far, base 2; -inf before the first
  alignas(64) float sum[kMaxSliceRows];      // of 2^(score - maximum)
  alignas(64) float decay[kMaxSliceRows];    // what the last step did to `o` and `sum`
  float largest[kMaxSliceRows];              // where there are weights: score of a token of weight > 0, base 2
};

}  // namespace headscope::kernels
