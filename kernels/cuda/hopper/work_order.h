// SPDX-License-Identifier: Apache-2.0
// The order in which thread blocks take work items: sections of heads whose K and V fit the L2 cache together, and
// inside the last section the longest item first, so that the last ones to finish are short. The others begin with the
// shortest: those need few keys, mostly the first ones, so that a new section's keys come from memory one by one beside
// work on keys that are in the cache already, and not all of them at once.
//
// Where the keys of one head alone are more than the cache holds, every section begins with the longest. Blocks that
// take items of rising cost in turn start ever further apart, since each was later by all that it has done: they then
// read from everywhere between the first key and the diagonal. With falling costs who starts late has less to do, and
// the blocks go through the keys side by side.
//
// Planned on the device, because the lists are there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels::hopper {

struct WorkOrderShape {
  int32_t items_per_head = 0;
  int32_t num_heads = 0;          // batch * num_qo_heads
  int32_t heads_per_section = 0;  // query heads; a multiple of the group size
  bool sections_fit_cache = true;

  int32_t NumSections() const { return (num_heads + heads_per_section - 1) / heads_per_section; }
};

// Fills order [items_per_head * num_heads], zeroes next_item[0] and [1], which two kernels take items by; costs
// [items_per_head * num_heads] is scratch. Two small launches, each of which lets the kernel behind it start early:
// that one waits for them (dependent_launch.cuh). dense_sections: null, or [NumSections()], becomes 1 where every head
// of a section keeps everything, by lists of full and partial runs under a causal rule; else 0.
Status LaunchWorkOrder(const SparseIndexView& index, const WorkOrderShape& shape, int32_t* costs, int32_t* order,
                       int32_t* next_item, int32_t* dense_sections, cudaStream_t stream);

}  // namespace headscope::kernels::hopper
