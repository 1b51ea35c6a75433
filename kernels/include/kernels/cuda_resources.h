// SPDX-License-Identifier: Apache-2.0
// What every caller of CUDA's runtime needs beside it: its errors as Status, and memory and events that their owner
// frees. For sources that see CUDA's headers, and no others.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda_memory.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Ok for cudaSuccess. `what` names the call or kernel and the shapes, as in "AttendSimple (batch 1, 32 heads, 4096 x
// 4096, head_dim 128)".
inline Status CudaStatus(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  // A sticky error would be reported again by the next, innocent call.
  cudaGetLastError();
  const std::string reason = what + " failed: " + cudaGetErrorString(error);
  switch (error) {
    case cudaErrorMemoryAllocation:
      return {StatusCode::kOutOfMemory,
              reason + "; free GPU memory, take a shorter sequence or fewer heads, or run on the CPU"};
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
      return {StatusCode::kDeviceMissing, reason + "; install a driver for CUDA 13 or run on the CPU"};
    default:
      return {StatusCode::kDeviceError, reason};
  }
}

// At least one byte, so that no bytes are no null pointer. Errors: kOutOfMemory, naming `what` and how much it needs.
inline Status AllocateOnDevice(int64_t bytes, const std::string& what, DeviceMemory* memory) {
  void* allocated = nullptr;
  const cudaError_t error = cudaMalloc(&allocated, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  memory->reset(allocated);
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  return CudaStatus(
      error, "allocating " +
                 (bytes < kMebibyte ? std::to_string(bytes) + " bytes" : std::to_string(bytes / kMebibyte) + " MiB") +
                 " of GPU memory for " + what);
}

// What calls of several sizes take turns at: grows, never shrinks.
struct GrowingDeviceMemory {
  DeviceMemory memory;
  size_t bytes = 0;

  Status Reserve(size_t wanted, const std::string& what) {
    if (memory != nullptr && bytes >= wanted) return {};
    memory.reset();
    bytes = 0;
    Status status = AllocateOnDevice(static_cast<int64_t>(wanted), what, &memory);
    if (status.ok()) bytes = wanted;
    return status;
  }
};

// Synchronous copies.
inline Status CopyToDevice(const void* host, int64_t bytes, void* device) {
  return CudaStatus(cudaMemcpy(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice), "copying to the GPU");
}
inline Status CopyFromDevice(const void* device, int64_t bytes, void* host) {
  return CudaStatus(cudaMemcpy(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost),
                    "copying from the GPU");
}

struct DestroyEvent {
  void operator()(CUevent_st* event) const { cudaEventDestroy(event); }
};
// A mark in a stream that has a time.
using CudaEvent = std::unique_ptr<CUevent_st, DestroyEvent>;

inline Status MakeEvent(CudaEvent* event) {
  cudaEvent_t made = nullptr;
  const cudaError_t error = cudaEventCreate(&made);
  event->reset(made);
  return CudaStatus(error, "creating a CUDA event");
}
// Between two events that have happened.
inline Status MillisecondsBetween(const CudaEvent& start, const CudaEvent& stop, double* milliseconds) {
  float elapsed = 0;
  Status status = CudaStatus(cudaEventElapsedTime(&elapsed, start.get(), stop.get()), "reading the GPU's clock");
  if (status.ok()) *milliseconds = static_cast<double>(elapsed);
  return status;
}

}  // namespace headscope::kernels
