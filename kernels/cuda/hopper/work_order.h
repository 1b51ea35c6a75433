// The order in which thread blocks take work items: sections of heads whose K and V fit the L2 cache together, and
// inside a section the longest item first, so that the last ones to finish are short. Planned on the device, because
// the lists are there.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "hopper/kernel_params.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels::hopper {

// What a run adds to the cost of its list, in segments: the aligned pieces of kSegmentRows keys that it reaches and
// `previous`, the run in front of it, does not. Of a list's first run the one in front is empty.
//
// Summed over a list this is at least the number of segments that RunWalker packs the runs into, for aligned pieces are
// a cover of them too, and at most twice that number, for a segment touches two pieces. It asks no run for what the
// runs before it have left over, which only a walk in order could tell, and a sum of lengths rounded up run by run
// would take a list of short runs for one up to kSegmentRows times as long.
constexpr int32_t NewPieces(const KeyRun& previous, const KeyRun& run) {
  const int32_t counted = (previous.End() + kSegmentRows - 1) / kSegmentRows;
  const int32_t first = run.start / kSegmentRows;
  const int32_t end = (run.End() + kSegmentRows - 1) / kSegmentRows;
  return std::max(end - std::max(first, counted), 0);
}

struct WorkOrderShape {
  int32_t items_per_head = 0;
  int32_t num_heads = 0;          // batch * num_qo_heads
  int32_t heads_per_section = 0;  // query heads; a multiple of the group size
};

// Fills order [items_per_head * num_heads], zeroes *next_item; costs [items_per_head * num_heads] is scratch. Two small
// launches.
Status LaunchWorkOrder(const SparseIndexView& index, const WorkOrderShape& shape, int32_t* costs, int32_t* order,
                       int32_t* next_item, cudaStream_t stream);

}  // namespace headscope::kernels::hopper
