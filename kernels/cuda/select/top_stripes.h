// SPDX-License-Identifier: Apache-2.0
// SampleAttention's picks: per chunk and direction the fewest stripes of 128 lines whose mass reaches a share of the
// total, larger stripes first, equal ones by lower index.
//
// One block per pick, whatever the number of stripes: a radix search as top_lines.h's, that adds up mass instead of
// counting. Masses are added as integers in units of 2^-55, so that the outcome does not depend on the order of
// atomics; a pick's mass is at most its probed rows, 2^7, so sums stay under 2^63.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "select/probe.h"
#include "select/top_lines.h"

namespace headscope::kernels::selection {

struct TopStripesParams {
  ProbeParams probe;            // stripe mode
  int32_t num_sets = 0;         // batch * query heads * chunks
  int32_t num_stripes = 0;      // of columns and of diagonals alike
  double share[2] = {0, 0};     // of the sampled mass, that the kept columns (0) and diagonals (1) reach
  float* masses = nullptr;      // [set, direction, num_stripes]
  uint64_t* bitmaps = nullptr;  // [set, direction, LineBitmapWords(num_stripes)]
};

cudaError_t LaunchTopStripes(const TopStripesParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::selection
