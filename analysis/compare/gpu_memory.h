// SPDX-License-Identifier: Apache-2.0
// Memory of the current GPU, and CUDA's errors as Status.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/status.h"

namespace headscope::analysis {

// Ok for cudaSuccess; otherwise `what` (a verb in -ing and its object) with CUDA's reason.
kernels::Status GpuStatus(cudaError_t error, const std::string& what);

struct FreeGpuMemory {
  void operator()(void* memory) const { cudaFree(memory); }
};
// Aligned to 256 bytes, as cudaMalloc gives it.
using GpuMemory = std::unique_ptr<void, FreeGpuMemory>;

// At least one byte, so that no bytes are no null pointer. Errors: kOutOfMemory.
kernels::Status AllocateOnGpu(int64_t bytes, const std::string& what, GpuMemory* memory);

// Synchronous copies.
kernels::Status UploadToGpu(const void* host, int64_t bytes, void* device);
kernels::Status DownloadFromGpu(const void* device, int64_t bytes, void* host);

}  // namespace headscope::analysis
