#include <cuda_runtime_api.h>

#include "cuda_error.h"
#include "kernels/cuda_executor.h"

namespace headscope::kernels {

bool BuiltWithCuda() {
  return true;
}

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
                                            std::to_string(count) + ", numbered from 0."};
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

}  // namespace headscope::kernels
