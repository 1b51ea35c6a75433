// SPDX-License-Identifier: Apache-2.0
#include "device_pointers.h"

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda_resources.h"

namespace headscope::kernels {
namespace {

Status Refuse(const NamedAddress& named, const std::string& where) {
  return {StatusCode::kInvalidArgument, std::string(named.field) + " lies " + where + "."};
}

// False where it cannot be said: on the default stream, while another is captured.
bool IsCaptured(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status);
  if (error != cudaSuccess) cudaGetLastError();  // leaves none behind
  return error == cudaSuccess && status == cudaStreamCaptureStatusActive;
}

Status CheckAddress(const NamedAddress& named, int device, void* stream) {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, named.address);
  if (error != cudaSuccess) return CudaStatus(error, std::string("asking where ") + named.field + " lies");
  switch (attributes.type) {
    case cudaMemoryTypeManaged:
      return {};
    case cudaMemoryTypeDevice:
      if (attributes.device == device) return {};
      return Refuse(named, "on GPU " + std::to_string(attributes.device) + ", the current GPU is " +
                               std::to_string(device) + ": make its GPU the current one, or copy it");
    case cudaMemoryTypeHost:
      // Some systems give registered memory another address on the GPU.
      if (attributes.devicePointer == named.address) return {};
      return Refuse(named,
                    "in registered host memory, which the GPU does not reach at this address: pass the pointer of "
                    "cudaHostGetDevicePointer, or copy it to the GPU");
    case cudaMemoryTypeUnregistered:
      break;
  }
  if (IsCaptured(stream)) return {};
  return Refuse(named,
                "in no memory that CUDA knows, so in plain host memory or in memory that was freed: copy it to "
                "the GPU");
}

}  // namespace

Status CheckOnDevice(std::initializer_list<NamedAddress> addresses, void* stream) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) {
    return CudaStatus(error, "asking for the current GPU");
  }
  for (const NamedAddress& named : addresses) {
    if (named.address == nullptr) continue;
    if (Status status = CheckAddress(named, device, stream); !status.ok()) return status;
  }
  return {};
}

}  // namespace headscope::kernels
