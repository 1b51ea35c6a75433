// SPDX-License-Identifier: Apache-2.0
// cudaError_t as a Status: which call failed, on what, and CUDA's own words for it.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

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
              reason + "; free GPU memory, take a shorter sequence or fewer heads, or run on the CPU."};
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
      return {StatusCode::kDeviceMissing, reason + "; install a driver for CUDA 13 or run on the CPU."};
    default:
      return {StatusCode::kDeviceError, reason + "."};
  }
}

}  // namespace headscope::kernels
