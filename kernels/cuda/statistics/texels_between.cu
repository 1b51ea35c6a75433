// SPDX-License-Identifier: Apache-2.0
// Texels with any edges, as a picture of any size has them. Some rows at a time the scores go to the GPU's memory; a
// warp then folds what a texel has of these rows, and the next rows' part joins it, so that the order is always the
// same.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "device_memory.h"
#include "statistics/score_rows.cuh"
#include "statistics/texels_between.h"

namespace headscope::kernels {
namespace statistics {
namespace {

constexpr int kWarpsPerBlock = 8;

// The rows whose scores are there, and the texels.
struct TexelChunk {
  const float* scores;
  int64_t pitch;
  int row_begin, row_end;  // of the head
  int num_texel_columns;
  bool by_sum;
};

// Grid (groups of texel columns, texel rows that the chunk has rows of, the first of which is first_texel_row).
__global__ void FoldTexelsKernel(TexelChunk chunk, ScoreParams params, const float* lse, const int* row_edges,
                                 const int* column_edges, int first_texel_row, double* texels) {
  constexpr float kLog2E = 1.442695040888963407f;
  const int texel_column = static_cast<int>(blockIdx.x) * kWarpsPerBlock + static_cast<int>(threadIdx.x) / 32;
  if (texel_column >= chunk.num_texel_columns) return;
  const int texel_row = first_texel_row + static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row_end = min(row_edges[texel_row + 1], chunk.row_end);
  double sum = 0;
  float largest = -INFINITY;
  for (int row = max(row_edges[texel_row], chunk.row_begin); row < row_end; ++row) {
    const RowColumns attended(params, row, 0);
    const int begin = max(column_edges[texel_column], attended.begin);
    const int end = min(column_edges[texel_column + 1], attended.end);
    const float natural = lse[row];
    const float row_lse = natural == -INFINITY ? INFINITY : natural * kLog2E;
    const float* const scores = chunk.scores + (row - chunk.row_begin) * chunk.pitch;
    float of_row = 0;
    for (int column = begin + lane; column < end; column += 32) {
      const float below = scores[column] - row_lse;
      largest = fmaxf(largest, below);
      of_row += Exp2(below);
    }
    sum += static_cast<double>(of_row);
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(~0u, sum, offset);
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
  }
  if (lane != 0) return;
  double* const texel = texels + int64_t{texel_row} * chunk.num_texel_columns + texel_column;
  *texel = chunk.by_sum ? *texel + sum : fmax(*texel, static_cast<double>(largest));
}

Status CheckEdges(const char* name, const std::vector<int64_t>& edges, int64_t length) {
  if (edges.size() >= 2 && edges.front() >= 0 && edges.back() <= length && std::is_sorted(edges.begin(), edges.end()))
    return {};
  return {StatusCode::kInvalidArgument,
          std::string(name) + " must be at least two edges, rising, between 0 and " + std::to_string(length) + "."};
}

template <typename T>
Status Upload(const std::vector<T>& host, DeviceMemory* memory) {
  const auto bytes = static_cast<int64_t>(host.size() * sizeof(T));
  if (Status status = AllocateOnDevice(bytes, "the texels of a picture", memory); !status.ok()) return status;
  return CudaStatus(cudaMemcpy(memory->get(), host.data(), static_cast<size_t>(bytes), cudaMemcpyHostToDevice),
                    "copying the edges of texels to the GPU");
}

}  // namespace

Status TexelsBetweenOnDevice(const AttentionProblem& problem, int32_t window, const float* lse, TexelValue value,
                             const std::vector<int64_t>& row_edges, const std::vector<int64_t>& column_edges,
                             double* texels) {
  if (problem.batch != 1 || problem.num_qo_heads != 1) {
    return {StatusCode::kUnsupported, "texels with any edges are of one head of one sequence, and the problem has " +
                                          std::to_string(problem.batch) + " x " + std::to_string(problem.num_qo_heads) +
                                          "; compute this on the CPU."};
  }
  if (Status status = CheckEdges("row_edges", row_edges, problem.seq_q); !status.ok()) return status;
  if (Status status = CheckEdges("column_edges", column_edges, problem.seq_k); !status.ok()) return status;
  ScoreParams params;
  if (Status status = MakeScoreParams(problem, window, 0, {{"lse", lse}}, nullptr, &params); !status.ok()) {
    return status;
  }
  const std::vector<int> rows(row_edges.begin(), row_edges.end()), columns(column_edges.begin(), column_edges.end());
  const auto num_texel_rows = static_cast<int>(rows.size()) - 1;
  const auto num_texel_columns = static_cast<int>(columns.size()) - 1;
  const bool by_sum = value == TexelValue::kSum;
  const std::vector<double> nothing(static_cast<size_t>(num_texel_rows) * static_cast<size_t>(num_texel_columns),
                                    by_sum ? 0.0 : -INFINITY);
  const int64_t chunk_rows = std::min<int64_t>(
      ScoreChunkRows(params), (rows.back() - rows.front() + kTileRows - 1) / kTileRows * int64_t{kTileRows});
  DeviceMemory scores, device_rows, device_columns, device_texels;
  if (Status status = AllocateOnDevice(std::max<int64_t>(chunk_rows, 1) * ScorePitch(params) * int64_t{sizeof(float)},
                                       "the scores of a picture's rows", &scores);
      !status.ok()) {
    return status;
  }
  if (Status status = Upload(rows, &device_rows); !status.ok()) return status;
  if (Status status = Upload(columns, &device_columns); !status.ok()) return status;
  if (Status status = Upload(nothing, &device_texels); !status.ok()) return status;

  for (int64_t begin = rows.front(); begin < rows.back(); begin += chunk_rows) {
    const int64_t end = std::min<int64_t>(begin + chunk_rows, rows.back());
    auto* const chunk_scores = static_cast<float*>(scores.get());
    if (Status scored = ScoreRows(problem, RowsOf(params, begin, end), chunk_scores); !scored.ok()) return scored;
    // Texel rows with some row in [begin, end).
    const auto first = static_cast<int>(std::upper_bound(rows.begin(), rows.end(), begin) - rows.begin()) - 1;
    const auto last = static_cast<int>(std::lower_bound(rows.begin(), rows.end(), end) - rows.begin());
    const TexelChunk chunk{chunk_scores,          ScorePitch(params), static_cast<int>(begin),
                           static_cast<int>(end), num_texel_columns,  by_sum};
    FoldTexelsKernel<<<dim3(static_cast<unsigned>((num_texel_columns + kWarpsPerBlock - 1) / kWarpsPerBlock),
                            static_cast<unsigned>(last - first)),
                       kWarpsPerBlock * 32>>>(chunk, params, lse, static_cast<const int*>(device_rows.get()),
                                              static_cast<const int*>(device_columns.get()), first,
                                              static_cast<double*>(device_texels.get()));
    if (Status folded = CudaStatus(cudaGetLastError(), "FoldTexelsKernel (" + Describe(problem) + ")"); !folded.ok())
      return folded;
  }
  return CudaStatus(cudaMemcpy(texels, device_texels.get(), nothing.size() * sizeof(double), cudaMemcpyDeviceToHost),
                    "computing texels on the GPU");
}

}  // namespace statistics
}  // namespace headscope::kernels
