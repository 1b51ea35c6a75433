// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"

namespace headscope::kernels {

Status QueryCudaDevice(int32_t device, CudaDeviceInfo* info) {
  if (info == nullptr) return {StatusCode::kInvalidArgument, "QueryCudaDevice: info is null."};
  // CUDA's own words for "no driver at all" are those for one that is too old.
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    return {StatusCode::kDeviceMissing,
            "looking for a GPU: no NVIDIA driver was found; install one for CUDA 13 or run on the CPU."};
  }
  int count = 0;
  // Without a driver this call fails and nothing else has been touched: a machine without a GPU gets here and goes on.
  if (Status status = CudaStatus(cudaGetDeviceCount(&count), "looking for a GPU"); !status.ok()) {
    return {StatusCode::kDeviceMissing, status.message()};
  }
  if (device < 0 || device >= count) {
    return {StatusCode::kDeviceMissing, "GPU " + std::to_string(device) + " does not exist: this machine has " +
                                            std::to_string(count) + ", numbered from 0"};
  }
  cudaDeviceProp properties;
  if (Status status = CudaStatus(cudaGetDeviceProperties(&properties, device), "reading the GPU's properties");
      !status.ok()) {
    return status;
  }
  info->name = properties.name;
  info->compute_capability = properties.major * 10 + properties.minor;
  info->num_multiprocessors = properties.multiProcessorCount;
  info->total_memory = static_cast<int64_t>(properties.totalGlobalMem);
  return {};
}

Status UseCudaDevice(int32_t device) {
  CudaDeviceInfo info;
  if (Status status = QueryCudaDevice(device, &info); !status.ok()) return status;
  return CudaStatus(cudaSetDevice(device), "choosing GPU " + std::to_string(device));
}

Status CudaDeviceScope::Enter(int32_t device) {
  int current = 0;
  const bool known = cudaGetDevice(&current) == cudaSuccess;
  if (known && current == device) return {};
  if (!known || cudaSetDevice(device) != cudaSuccess) {
    cudaGetLastError();  // it is told here, by the call that finds out what is missing: the device, or the driver
    if (Status status = UseCudaDevice(device); !status.ok()) {
      if (known) cudaSetDevice(current);
      cudaGetLastError();
      return status;
    }
  }
  if (known) before_ = current;
  return {};
}

CudaDeviceScope::~CudaDeviceScope() {
  if (before_ >= 0) cudaSetDevice(before_);
}

Status NameOfCudaDevice(std::string* name, int32_t* number) {
  int device = 0, count = 0;
  CudaDeviceInfo info;
  // First whether there is any: the other calls do not tell a missing driver from an old one.
  Status status = QueryCudaDevice(0, &info);
  if (status.ok()) status = CudaStatus(cudaGetDevice(&device), "asking for the current GPU");
  if (status.ok()) status = CudaStatus(cudaGetDeviceCount(&count), "counting the GPUs");
  if (status.ok()) status = QueryCudaDevice(device, &info);
  if (!status.ok()) return status;
  *name = count == 1 ? info.name : info.name + " (cuda:" + std::to_string(device) + ")";
  if (number != nullptr) *number = device;
  return status;
}

}  // namespace headscope::kernels
