// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "kernels/cuda_cold_cache.h"
#include "kernels/cuda_resources.h"

namespace headscope::kernels {
namespace {

constexpr int kReadThreads = 512, kReadAtOnce = 4;

// Whole grids of kReadAtOnce words a thread, so that every thread has as many loads in flight.
__global__ void ReadAllKernel(const uint4* words, int64_t count) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  uint4 all = {};
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += kReadAtOnce * threads) {
#pragma unroll
    for (int n = 0; n < kReadAtOnce; ++n) {
      const int64_t at = i + n * threads;
      if (at >= count) continue;
      const uint4 word = __ldcg(words + at);
      all = {all.x | word.x, all.y | word.y, all.z | word.z, all.w | word.w};
    }
  }
  // Never so, since all of it is zero, which the compiler does not know: it keeps the reads.
  if ((all.x | all.y | all.z | all.w) != 0) __trap();
}

}  // namespace

Status ColdCache::Create(ColdCache* made) {
  int device = 0, cache_bytes = 0;
  if (Status status = CudaStatus(cudaGetDevice(&device), "asking for the current GPU"); !status.ok()) return status;
  if (Status status = CudaStatus(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device),
                                 "asking for the size of the GPU's L2 cache");
      !status.ok()) {
    return status;
  }
  if (Status status =
          CudaStatus(cudaDeviceGetAttribute(&made->multiprocessors_, cudaDevAttrMultiProcessorCount, device),
                     "asking for the number of the GPU's multiprocessors");
      !status.ok()) {
    return status;
  }
  made->bytes_ = int64_t{8} * cache_bytes;
  if (Status status = AllocateOnDevice(made->bytes_, "filling its cache before timed runs", &made->memory_);
      !status.ok()) {
    return status;
  }
  return CudaStatus(cudaMemset(made->memory_.get(), 0, static_cast<size_t>(made->bytes_)),
                    "clearing what fills the GPU's cache");
}

Status ColdCache::Fill(void* stream) const {
  ReadAllKernel<<<4 * multiprocessors_, kReadThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(memory_.get()), bytes_ / int64_t{sizeof(uint4)});
  return CudaStatus(cudaGetLastError(), "filling the GPU's cache");
}

}  // namespace headscope::kernels
