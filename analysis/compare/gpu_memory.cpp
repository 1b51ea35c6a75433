// SPDX-License-Identifier: Apache-2.0
#include "compare/gpu_memory.h"

#include <algorithm>

namespace headscope::analysis {

using kernels::Status;
using kernels::StatusCode;

Status GpuStatus(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // cleared, so that the next call does not report it again
  const std::string reason = what + " failed: " + cudaGetErrorString(error);
  if (error != cudaErrorMemoryAllocation) return {StatusCode::kDeviceError, reason};
  return {StatusCode::kOutOfMemory, reason + "; free GPU memory, take a shorter trace, or choose the device cpu"};
}

Status AllocateOnGpu(int64_t bytes, const std::string& what, GpuMemory* memory) {
  void* allocated = nullptr;
  Status status = GpuStatus(cudaMalloc(&allocated, static_cast<size_t>(std::max<int64_t>(bytes, 1))),
                            "allocating " + std::to_string(bytes) + " bytes of GPU memory for " + what);
  memory->reset(allocated);
  return status;
}

Status UploadToGpu(const void* host, int64_t bytes, void* device) {
  return GpuStatus(cudaMemcpy(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice), "copying to the GPU");
}

Status DownloadFromGpu(const void* device, int64_t bytes, void* host) {
  return GpuStatus(cudaMemcpy(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost),
                   "copying from the GPU");
}

}  // namespace headscope::analysis
