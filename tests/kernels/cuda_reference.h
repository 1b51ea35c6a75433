// SPDX-License-Identifier: Apache-2.0
// Attention of chosen rows in float64 on the GPU, from a byte mask made on the host: no code in common with the
// executors under test.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::kernels::testing {

struct ReferenceRow {
  int32_t sequence;
  int32_t head;
  int32_t row;
};

// problem: device pointers, but of the sinks. mask [rows.size()][seq_k]: 1 where the row keeps the column. o
// [rows.size()][v_head_dim], lse [rows.size()], row_max likewise or null. Returns false when a CUDA call failed.
bool ReferenceRowsOnGpu(const AttentionProblem& problem, const std::vector<ReferenceRow>& rows,
                        const std::vector<uint8_t>& mask, std::vector<double>* o, std::vector<double>* lse,
                        std::vector<double>* row_max = nullptr);

// Fills `count` elements of a device array with normal deviates times `factor`; the same seed gives the same values.
bool FillNormal(DType dtype, void* data, int64_t count, float factor, uint64_t seed);

// Reads two pieces of device memory once, each a multiple of 16 bytes and aligned to as many, as a kernel does that has
// nothing else to do: on the default stream.
bool ReadOnce(const void* first, const void* second, int64_t bytes_each);

}  // namespace headscope::kernels::testing
