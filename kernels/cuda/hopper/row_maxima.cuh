// SPDX-License-Identifier: Apache-2.0
// Rows' largest scores, for callers that ask for them (AttentionOutput::row_max). The softmax does without them
// (hopper/softmax.cuh): they cost a comparison a score.
#pragma once

#include <cute/tensor.hpp>

#include "fast_math.cuh"
#include "hopper/pipeline.cuh"

namespace headscope::kernels::hopper {

// Of the two rows of a consumer thread, over the steps of an item; NaN where a score was.
struct RowMaxima {
  float largest[2] = {-INFINITY, -INFINITY};  // of the columns that this thread has had

  // Two neighbouring scores, capped and masked: accumulators i and i + 1 of wgmma's. Beside an exponential of each,
  // which takes four times as long, this costs no time of its own.
  __device__ void Count(int i, float low, float high) {
    float& row = largest[i / 2 % 2];
    row = cuda::MaxOrNan(cuda::MaxOrNan(row, low), high);
  }

  // A tile's scores at once.
  template <class Scores>
  __device__ void Take(const Scores& scores) {
    // As in SoftmaxState::Raise, chains that are short.
    float pair_max[4] = {scores(0), scores(1), scores(2), scores(3)};
    CUTE_UNROLL
    for (int i = 4; i < decltype(cute::size(scores))::value; ++i) {
      pair_max[i % 4] = cuda::MaxOrNan(pair_max[i % 4], scores(i));
    }
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      largest[r] = cuda::MaxOrNan(largest[r], cuda::MaxOrNan(pair_max[2 * r], pair_max[2 * r + 1]));
    }
  }

  // Of all columns of a row, in natural units, of which a score is so many. All lanes of a warp call it.
  __device__ float OfRow(int r, float unit) const {
    float all = largest[r];
    all = cuda::MaxOrNan(all, __shfl_xor_sync(kAllLanes, all, 1));
    all = cuda::MaxOrNan(all, __shfl_xor_sync(kAllLanes, all, 2));
    // FP8's unit may be 0, where -inf times it is no number.
    return all == -INFINITY ? all : all * unit;
  }
};

}  // namespace headscope::kernels::hopper
