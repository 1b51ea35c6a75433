// SPDX-License-Identifier: Apache-2.0
// The write side of many tokens at once: see UpdateSparqCuda.
//
// One launch moves all of the bytes: the blocks of a list are its parts of the values, which take longest and so come
// first, and its tiles of keys. A second one, of a block a list, adds the parts. Sums are fp32 over a part's few
// thousand values, 16 or 32 of which run side by side, and double across parts: the error does not grow with the
// length.
#include "decode/sparq_upkeep_threads.cuh"

namespace headscope::kernels::decode {
namespace {

template <typename T, int D>
__global__ void __launch_bounds__(kUpkeepThreads) UpkeepKernel(const __grid_constant__ UpkeepParams p) {
  __shared__ uint4 shared[UpkeepSharedBytes(D) / sizeof(uint4)];
  const int list = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  if (static_cast<int>(blockIdx.x) < p.parts) {
    const int part = static_cast<int>(blockIdx.x);
    float* const sums = reinterpret_cast<float*>(shared);
    SumRows<T, D>(p, list, part, thread, sums);
    __syncthreads();
    if (thread < D) AddRows<D>(p, list, part, thread, sums);
    return;
  }
  const ListKeys keys = KeysOfList(p, list);
  const int64_t tile = int64_t{p.first_tile} + static_cast<int>(blockIdx.x) - p.parts;
  ReadTile<D>(keys, tile, thread, shared);
  __syncthreads();
  WriteTile<D>(keys, tile, thread, shared);
}

__global__ void MoveMeanKernel(const __grid_constant__ UpkeepParams p) {
  MoveMean(p, static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
}

}  // namespace

template <typename T>
cudaError_t LaunchUpkeep(const UpkeepParams& params, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(params.parts + params.tiles), static_cast<unsigned>(params.lists));
  const auto kernel = params.head_dim == 64 ? UpkeepKernel<T, 64> : UpkeepKernel<T, 128>;
  kernel<<<grid, kUpkeepThreads, 0, stream>>>(params);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess || params.parts == 0) return error;
  MoveMeanKernel<<<static_cast<unsigned>(params.lists), static_cast<unsigned>(params.head_dim), 0, stream>>>(params);
  return cudaGetLastError();
}

template cudaError_t LaunchUpkeep<__nv_bfloat16>(const UpkeepParams&, cudaStream_t);
template cudaError_t LaunchUpkeep<__half>(const UpkeepParams&, cudaStream_t);

}  // namespace headscope::kernels::decode
