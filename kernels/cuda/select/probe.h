// SPDX-License-Identifier: Apache-2.0
// The estimate of vertical-slash and SampleAttention: attention mass along columns and along diagonals, summed over a
// few probed query rows (kernels/methods/line_sums.h is the CPU's form).
//
// Vocabulary. A *set* is what one pick is made from: one chunk of one query head (vertical-slash has one chunk). Its
// probed rows are cut into *units* of 64. Keys are cut into *strips*; a thread block takes one strip of one unit, and
// each of its warps a *warp strip* of keys_per_warp keys.
//
// Two launches: a reference near each row's maximum and the denominators, then the sums. Each reads K once; scores are
// never stored. Every sum has one fixed order: inside a thread, over the lanes by shuffles, over warp strips and units
// by whoever reads the partials (probe_sums.cuh). There are no atomics, so the same input gives the same bits.
//
// Cost per unit: 4 * 64 * keys * head_dim floating-point operations on the tensor cores.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention_problem.h"

namespace headscope::kernels::selection {

constexpr int32_t kUnitRows = 64;
constexpr int32_t kProbeWarps = 4;
constexpr int32_t kStripe = 128;  // lines of a stripe

struct ProbeParams {
  StridedTensor<const void> q;
  StridedTensor<const void> k;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t group_size = 0;
  int32_t head_dim = 0;
  int32_t seq_q = 0;
  int32_t first_position = 0;
  int32_t num_chunks = 1;
  int32_t rows_per_chunk = 0;   // probed rows: the last of each chunk
  int32_t units_per_chunk = 0;  // some may be empty
  int32_t keys_per_warp = 0;    // a power of two from kStripe to 1024
  int32_t num_strips = 0;
  bool stripes = false;  // sums of stripes of 128 lines instead of single lines
  // Scores in base 2: soft_cap == 0: dot * score_scale; else cap * tanh(dot * score_scale).
  float score_scale = 0;
  float cap = 0;
  // Partial results, [unit, ...]; see probe_sums.cuh for how they are read.
  float2* row_partials = nullptr;  // [unit, strip, 64]: reference, sum of exponentials
  float* columns = nullptr;        // [unit, column_pitch]
  float* slashes = nullptr;        // [unit, warp strip, slash_pitch]
  int64_t column_pitch = 0;
  int32_t slash_pitch = 0;

  constexpr int32_t UnitsPerHead() const { return num_chunks * units_per_chunk; }
  constexpr int32_t NumWarpStrips() const { return num_strips * kProbeWarps; }
};

// Launch both kernels, for tensors of bf16 or fp16; a translation unit for each.
cudaError_t LaunchProbeBf16(const ProbeParams& params, int32_t batch, cudaStream_t stream);
cudaError_t LaunchProbeFp16(const ProbeParams& params, int32_t batch, cudaStream_t stream);

}  // namespace headscope::kernels::selection
