// SPDX-License-Identifier: Apache-2.0
// The simple executor: no tensor cores, no asynchronous copies, nothing to tune. It runs on every GPU from compute
// capability 8.0 and takes every dtype and any two multiples of 8 up to 256 as head_dim and v_head_dim; the Hopper
// kernel is compared with it as well as with float64 (tests/kernels/cuda_attend_calls_test.cpp).
//
// Method: a thread block owns 32 rows of a row tile, a warp four of them. Keys come in chunks of 32: a lane scores one
// key against the warp's rows, the warp updates its online softmax, then a lane accumulates every 32nd component of the
// output. Arithmetic is fp32 throughout.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "current_device.h"
#include "fast_math.cuh"
#include "head_sinks.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"
#include "key_interval.cuh"
#include "problem_check.h"
#include "shared_memory.h"

namespace headscope::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kRowsPerWarp = 4;
constexpr int kRowsPerBlock = kWarps * kRowsPerWarp;
constexpr int kChunk = 32;  // keys, one per lane

__device__ float ToFloat(float x) {
  return x;
}
__device__ float ToFloat(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ float ToFloat(__half x) {
  return __half2float(x);
}
__device__ void Store(float* p, float x) {
  *p = x;
}
__device__ void Store(__nv_bfloat16* p, float x) {
  *p = __float2bfloat16_rn(x);
}
__device__ void Store(__half* p, float x) {
  *p = __float2half_rn(x);
}

// NaN where some lane has one.
__device__ float WarpMax(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x = cuda::MaxOrNan(x, __shfl_xor_sync(~0u, x, offset));
  return x;
}
__device__ float WarpSum(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

template <typename T>
__device__ T* HeadPointer(const StridedTensor<void>& tensor, int sequence, int head) {
  return static_cast<T*>(tensor.data) + sequence * tensor.batch_stride + head * tensor.head_stride;
}
template <typename T>
__device__ const T* HeadPointer(const StridedTensor<const void>& tensor, int sequence, int head) {
  return static_cast<const T*>(tensor.data) + sequence * tensor.batch_stride + head * tensor.head_stride;
}

// Shared memory: queries [kRowsPerBlock][head_dim], then one chunk of keys [kChunk][head_dim + 1] or of values
// [kChunk][v_head_dim + 1], which the problem states here (the odd pitch keeps lanes that read 32 rows of one component
// on 32 banks).
template <typename T, int kSlices>  // kSlices * 32 >= v_head_dim
__global__ void __launch_bounds__(kWarps * 32)
    AttendSimpleKernel(const __grid_constant__ AttentionProblem problem, const __grid_constant__ SparseIndexView index,
                       const __grid_constant__ AttentionOutput output, const __grid_constant__ HeadSinks sinks) {
  extern __shared__ float shared[];
  const int head_dim = problem.head_dim;
  const int value_dim = problem.v_head_dim;
  float* const queries = shared;
  float* const chunk = shared + kRowsPerBlock * head_dim;

  const int blocks_per_tile = index.tile_rows / kRowsPerBlock;
  const int num_row_tiles = (index.seq_q + index.tile_rows - 1) / index.tile_rows;
  const int64_t list = blockIdx.x / blocks_per_tile;
  const int tile = static_cast<int>(list % num_row_tiles);
  const int head = static_cast<int>(list / num_row_tiles % problem.num_qo_heads);
  const int sequence = static_cast<int>(list / num_row_tiles / problem.num_qo_heads);
  const int row_in_tile = static_cast<int>(blockIdx.x % blocks_per_tile) * kRowsPerBlock;
  const int first_row = tile * index.tile_rows + row_in_tile;
  if (first_row >= problem.seq_q) return;

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int kv_head = head / (problem.num_qo_heads / problem.num_kv_heads);
  const T* const q = HeadPointer<T>(problem.q, sequence, head);
  const T* const k = HeadPointer<T>(problem.k, sequence, kv_head);
  const T* const v = HeadPointer<T>(problem.v, sequence, kv_head);
  const float scale = problem.scale;

  for (int i = threadIdx.x; i < kRowsPerBlock * head_dim; i += kWarps * 32) {
    const int row = first_row + i / head_dim;
    queries[i] = row < problem.seq_q ? ToFloat(q[row * problem.q.row_stride + i % head_dim]) : 0.0f;
  }

  float row_max[kRowsPerWarp];
  float row_sum[kRowsPerWarp];
  float accumulator[kRowsPerWarp][kSlices];
  for (int r = 0; r < kRowsPerWarp; ++r) {
    row_max[r] = -INFINITY;
    row_sum[r] = 0.0f;
    for (int s = 0; s < kSlices; ++s) accumulator[r][s] = 0.0f;
  }

  // column_list null: the chunk is run.start + 0..run.Length(); else its columns are column_list[0..run.Length()). A
  // length of at most kChunk.
  auto attend_chunk = [&](KeyRun run, const int32_t* column_list) {
    const int num_keys = run.Length();
    auto column_of = [&](int key) { return column_list == nullptr ? run.start + key : column_list[key]; };
    auto load = [&](const T* tensor, int64_t row_stride, int dim) {
      __syncthreads();
      for (int i = threadIdx.x; i < num_keys * dim; i += kWarps * 32) {
        chunk[i / dim * (dim + 1) + i % dim] = ToFloat(tensor[column_of(i / dim) * row_stride + i % dim]);
      }
      __syncthreads();
    };

    load(k, problem.k.row_stride, head_dim);
    float score[kRowsPerWarp] = {};
    if (lane < num_keys) {
      for (int i = 0; i < head_dim; ++i) {
        const float key = chunk[lane * (head_dim + 1) + i];
        for (int r = 0; r < kRowsPerWarp; ++r) {
          score[r] = fmaf(queries[(warp * kRowsPerWarp + r) * head_dim + i], key, score[r]);
        }
      }
    }
    float weight[kRowsPerWarp];
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const int row = row_in_tile + warp * kRowsPerWarp + r;
      const int position = problem.first_position + tile * index.tile_rows + row;
      const cuda::KeyInterval kept = cuda::KeptKeys(index.rule, run, position, row < index.tile_rows / 2);
      float s = score[r] * scale;
      if (problem.soft_cap > 0) s = problem.soft_cap * tanhf(s / problem.soft_cap);
      if (!kept.Keeps(lane)) s = -INFINITY;
      const float new_max = cuda::MaxOrNan(row_max[r], WarpMax(s));
      // A row that has kept nothing so far has new_max -inf, and -inf - -inf is no number.
      const float shift = new_max == -INFINITY ? 0.0f : new_max;
      const float correction = expf(row_max[r] - shift);
      weight[r] = expf(s - shift);
      row_sum[r] = row_sum[r] * correction + WarpSum(weight[r]);
      row_max[r] = new_max;
      for (int i = 0; i < kSlices; ++i) accumulator[r][i] *= correction;
    }

    load(v, problem.v.row_stride, value_dim);
    for (int key = 0; key < num_keys; ++key) {
      for (int r = 0; r < kRowsPerWarp; ++r) {
        const float p = __shfl_sync(~0u, weight[r], key);
        if (p == 0.0f) continue;  // the value of a key that the row does not keep may be NaN
        for (int i = 0; i < kSlices; ++i) {
          const int component = lane + 32 * i;
          if (component >= value_dim) continue;
          accumulator[r][i] = fmaf(p, chunk[key * (value_dim + 1) + component], accumulator[r][i]);
        }
      }
    }
  };

  const KeyRun* const runs = index.runs + index.run_begin[list];
  for (int i = 0; i < index.run_count[list]; ++i) {
    const KeyRun run = runs[i];
    for (int offset = 0; offset < run.Length(); offset += kChunk) {
      attend_chunk(KeyRun::Make(run.start + offset, min(kChunk, run.Length() - offset), run.Flags()), nullptr);
    }
  }
  const int32_t* const columns = index.columns + index.column_begin[list];
  for (int offset = 0; offset < index.column_count[list]; offset += kChunk) {
    attend_chunk(KeyRun::Make(0, min(kChunk, index.column_count[list] - offset), 0), columns + offset);
  }

  T* const o = HeadPointer<T>(output.o, sequence, head);
  for (int r = 0; r < kRowsPerWarp; ++r) {
    const int row = first_row + warp * kRowsPerWarp + r;
    if (row >= problem.seq_q) continue;
    const int64_t slot = (int64_t{sequence} * problem.num_qo_heads + head) * problem.seq_q + row;
    if (lane == 0 && output.row_max != nullptr) output.row_max[slot] = row_max[r];
    if (sinks.count > 0) {
      // One more term of the sum, without a value.
      const float sink = sinks.logit[head], new_max = fmaxf(row_max[r], sink);
      const float correction = expf(row_max[r] - new_max);
      row_sum[r] = row_sum[r] * correction + expf(sink - new_max);
      row_max[r] = new_max;
      for (int i = 0; i < kSlices; ++i) accumulator[r][i] *= correction;
    }
    const float normaliser = row_sum[r] > 0 ? 1.0f / row_sum[r] : (row_sum[r] == 0 ? 0.0f : row_sum[r]);
    for (int i = 0; i < kSlices; ++i) {
      const int component = lane + 32 * i;
      if (component < value_dim) Store(o + row * output.o.row_stride + component, accumulator[r][i] * normaliser);
    }
    if (lane == 0 && output.lse != nullptr) {
      output.lse[slot] = row_sum[r] == 0 ? -INFINITY : row_max[r] + logf(row_sum[r]);
    }
  }
}

template <typename T, int kSlices>
Status Launch(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
              cudaStream_t stream) {
  const auto head_dim = static_cast<size_t>(problem.head_dim), value_dim = static_cast<size_t>(problem.ValueDim());
  const size_t shared_bytes = (kRowsPerBlock * head_dim + kChunk * (std::max(head_dim, value_dim) + 1)) * sizeof(float);
  const int64_t blocks = index.NumLists() * (index.tile_rows / kRowsPerBlock);
  if (blocks > std::numeric_limits<int32_t>::max()) {
    return {StatusCode::kUnsupported, "the index has " + std::to_string(index.NumLists()) +
                                          " lists: the CUDA executor takes fewer; attend fewer heads at a time."};
  }
  const std::string what = "AttendSimpleKernel (" + Describe(problem) + ")";
  if (Status status = CudaStatus(AllowSharedMemory(AttendSimpleKernel<T, kSlices>), what); !status.ok()) return status;
  AttendSimpleKernel<T, kSlices>
      <<<static_cast<unsigned>(blocks), kWarps * 32, shared_bytes, stream>>>(problem, index, output, SinksOf(problem));
  return CudaStatus(cudaGetLastError(), what);
}

template <typename T>
Status LaunchForValueDim(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                         cudaStream_t stream) {
  return problem.ValueDim() <= 128 ? Launch<T, 4>(problem, index, output, stream)
                                   : Launch<T, 8>(problem, index, output, stream);
}

}  // namespace

Status AttendCudaSimple(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                        void* stream) {
  if (Status status = CheckProblem(problem, index, output); !status.ok()) return status;
  for (const auto& [field, dim] : {std::pair{"head_dim", problem.head_dim}, {"v_head_dim", problem.ValueDim()}}) {
    if (dim % 8 == 0 && dim <= 256) continue;
    return {StatusCode::kUnsupported, std::string(field) + " is " + std::to_string(dim) +
                                          ": the simple CUDA executor takes multiples of 8 up to 256."};
  }
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  if (Status status = CheckProblemOnDevice(problem, index, output, stream); !status.ok()) return status;
  AttentionProblem scaled = problem;
  scaled.scale = problem.EffectiveScale();
  scaled.v_head_dim = problem.ValueDim();
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  switch (problem.dtype) {
    case DType::kFloat32:
      return LaunchForValueDim<float>(scaled, index, output, cuda_stream);
    case DType::kBFloat16:
      return LaunchForValueDim<__nv_bfloat16>(scaled, index, output, cuda_stream);
    case DType::kFloat16:
      return LaunchForValueDim<__half>(scaled, index, output, cuda_stream);
  }
  return {StatusCode::kInvalidArgument,
          "dtype is " + std::to_string(static_cast<int>(problem.dtype)) + ": must be fp32, bf16 or fp16."};
}

}  // namespace headscope::kernels
