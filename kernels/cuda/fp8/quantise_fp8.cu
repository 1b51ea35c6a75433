// SPDX-License-Identifier: Apache-2.0
// Quantises Q, K and V to e4m3 with one scale a head, into the images that fp8_params.h describes. Two passes: the
// largest magnitudes, then the values; the floor is the bytes of both.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "fp8/quantise_fp8.h"

namespace headscope::kernels::fp8 {
namespace {

constexpr int kThreads = 256;
constexpr float kLargest = 448.0f;  // of e4m3
constexpr int kChunk = 16;          // components that a thread quantises at a time

__device__ inline float ToFloat(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ inline float ToFloat(__half x) {
  return __half2float(x);
}

// 16 components from `from`, which is aligned to 16 bytes.
template <class Element>
__device__ inline void Read(const Element* from, float (&values)[kChunk]) {
  static_assert(sizeof(Element) == 2);
  for (int half = 0; half < 2; ++half) {
    const uint4 words = reinterpret_cast<const uint4*>(from)[half];
    const auto* const elements = reinterpret_cast<const Element*>(&words);
    for (int i = 0; i < 8; ++i) values[half * 8 + i] = ToFloat(elements[i]);
  }
}

// The largest finite magnitude of each head, as the bits of a float, whose order is the numbers'. largest[] begins at
// 0. A block takes kRowsPerBlock rows of the head blockIdx.y.
constexpr int kRowsPerBlock = 512;
template <class Element>
__global__ void __launch_bounds__(kThreads) LargestKernel(Source source, uint32_t* largest) {
  const auto* const head = static_cast<const Element*>(source.data) + blockIdx.y / source.heads * source.batch_stride +
                           blockIdx.y % source.heads * source.head_stride;
  const int chunk = threadIdx.x % (kHeadDim / kChunk), first = threadIdx.x / (kHeadDim / kChunk);
  float most = 0;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock;
  const int rows = static_cast<int>(min(static_cast<int64_t>(kRowsPerBlock), source.rows - begin));
  for (int row = first; row < rows; row += kThreads / (kHeadDim / kChunk)) {
    float values[kChunk];
    Read(head + (begin + row) * source.row_stride + chunk * kChunk, values);
    for (const float x : values) {
      if (isfinite(x)) most = fmaxf(most, fabsf(x));
    }
  }
  const uint32_t warp_most = __reduce_max_sync(~0u, __float_as_uint(most));
  if (threadIdx.x % 32 == 0) atomicMax(largest + blockIdx.y, warp_most);
}

// In place: what LargestKernel found becomes the scales.
__global__ void ScaleKernel(uint32_t* largest, int heads) {
  const int head = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (head >= heads) return;
  const float most = __uint_as_float(largest[head]);
  // Below this a scale would not be a normal number, and its inverse not finite.
  largest[head] = __float_as_uint(most == 0.0f ? 1.0f : fmaxf(most / kLargest, 0x1p-126f));
}

// Bytes of four quantised values; NaN for what is not finite.
__device__ inline uint32_t Quantise(const float* values, float scale) {
  uint32_t packed = 0;
  for (int i = 0; i < 4; ++i) {
    const float x = isfinite(values[i]) ? __fdiv_rn(values[i], scale) : __uint_as_float(0x7fffffffu);
    packed |= static_cast<uint32_t>(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)) << (8 * i);
  }
  return packed;
}

// One piece of 32 tokens a block, a chunk a thread: rows, and of values the columns as well.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    QuantiseKernel(Source source, const float* scales, int pieces, uint8_t* rows_image, uint8_t* columns_image) {
  static_assert(kThreads == kPieceTokens * kHeadDim / kChunk);
  __shared__ alignas(16) uint8_t bytes[kPieceTokens][kHeadDim + 4];
  const int head = static_cast<int>(blockIdx.y);
  const int64_t piece = blockIdx.x;
  const int token = threadIdx.x / (kHeadDim / kChunk), chunk = threadIdx.x % (kHeadDim / kChunk);
  const int64_t row = piece * kPieceTokens + token;
  uint4 packed{};
  if (row < source.rows) {
    const auto* const from = static_cast<const Element*>(source.data) + head / source.heads * source.batch_stride +
                             head % source.heads * source.head_stride + row * source.row_stride + chunk * kChunk;
    float values[kChunk];
    Read(from, values);
    const float scale = scales[head];
    packed = {Quantise(values, scale), Quantise(values + 4, scale), Quantise(values + 8, scale),
              Quantise(values + 12, scale)};
  }
  const int64_t begin = (static_cast<int64_t>(head) * pieces + piece) * kPieceBytes;
  *reinterpret_cast<uint4*>(rows_image + begin + token * kHeadDim + ((chunk ^ token % 8) << 4)) = packed;
  if (columns_image == nullptr) return;

  auto* const words = reinterpret_cast<uint32_t*>(&bytes[token][chunk * kChunk]);
  words[0] = packed.x;
  words[1] = packed.y;
  words[2] = packed.z;
  words[3] = packed.w;
  __syncthreads();
  const int component = threadIdx.x / 2, half = threadIdx.x % 2;
  uint32_t column[4] = {};
  for (int b = 0; b < 16; ++b) {
    column[b / 4] |= static_cast<uint32_t>(bytes[KeyAt(half * 16 + b)][component]) << (b % 4 * 8);
  }
  *reinterpret_cast<uint4*>(columns_image + begin + component * kPieceTokens + ((half ^ component / 4 % 2) << 4)) = {
      column[0], column[1], column[2], column[3]};
}

template <class Element>
cudaError_t Launch(const Source& source, int num_heads, float* scales, int pieces, uint8_t* rows, uint8_t* columns,
                   cudaStream_t stream) {
  auto* const largest = reinterpret_cast<uint32_t*>(scales);
  const auto heads = static_cast<unsigned>(num_heads);
  cudaError_t error = cudaMemsetAsync(largest, 0, sizeof(uint32_t) * heads, stream);
  if (error != cudaSuccess) return error;
  const dim3 parts(static_cast<unsigned>((source.rows + kRowsPerBlock - 1) / kRowsPerBlock), heads);
  LargestKernel<Element><<<parts, kThreads, 0, stream>>>(source, largest);
  ScaleKernel<<<(heads + 127) / 128, 128, 0, stream>>>(largest, num_heads);
  QuantiseKernel<Element>
      <<<dim3(static_cast<unsigned>(pieces), heads), kThreads, 0, stream>>>(source, scales, pieces, rows, columns);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchQuantise(const Source& source, DType dtype, int num_heads, float* scales, int pieces, uint8_t* rows,
                           uint8_t* columns, cudaStream_t stream) {
  return dtype == DType::kBFloat16 ? Launch<__nv_bfloat16>(source, num_heads, scales, pieces, rows, columns, stream)
                                   : Launch<__half>(source, num_heads, scales, pieces, rows, columns, stream);
}

}  // namespace headscope::kernels::fp8
