// SPDX-License-Identifier: Apache-2.0
// Heads made for tests: random ones, and ones whose pattern is known because it was planted; with float64 probabilities
// computed the plain way.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/measured_heads.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis::testing {

// Gaussian q, k, v; LSE in float64 by the naive formula.
struct RandomHeadShape {
  int64_t num_tokens = 200;
  int64_t first_row = 0;  // rows first_row, first_row + row_step, ..
  int64_t row_step = 1;
  int32_t head_dim = 32;
  int32_t window = 0;
  float soft_cap = 0;
  float sharpness = 2;     // standard deviation of q
  int32_t v_head_dim = 0;  // 0: head_dim
  bool sinks = false;      // heads have learned ones, differing from head to head
};
HeadTensorsPtr RandomHead(const RandomHeadShape& shape, uint32_t seed);

// A layer of such heads: 3:0, 3:1 and on, num_kv_heads groups of group_size that share K and V. bf16: values that bf16
// holds.
struct RandomLayer {
  std::vector<HeadTensorsPtr> heads;
  MeasuredHeadsPtr measured;
};
RandomLayer MakeRandomLayer(const RandomHeadShape& shape, int32_t num_kv_heads, int32_t group_size, uint32_t seed,
                            bool bf16 = false);

enum class Plant { kSinkLocal, kVertical, kSlash, kBlock, kDiffuse, kRetrieval, kSink, kLocal };
// noise: standard deviation that random queries add to every score.
HeadTensorsPtr PlantedHead(Plant plant, int64_t num_tokens, uint32_t seed, float noise = 0);

// p[row * num_tokens + column] in float64, 0 where the row does not attend.
std::vector<double> AllProbabilities(const HeadTensors& head);

// A valid index with random runs (some of them for one half of a tile) and single columns.
kernels::SparseIndex RandomIndex(const HeadTensors& head, int32_t tile_rows, kernels::ElementRule rule, uint32_t seed);

}  // namespace headscope::analysis::testing
