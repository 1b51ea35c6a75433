// SPDX-License-Identifier: Apache-2.0
#include "current_device.h"

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda_resources.h"

namespace headscope::kernels {

Status FindCurrentDevice(CurrentDevice* device) {
  const char* const what = "asking for the current GPU";
  if (Status status = CudaStatus(cudaGetDevice(&device->ordinal), what); !status.ok()) return status;
  int major = 0;
  int minor = 0;
  for (const auto& [attribute, value] :
       {std::pair{cudaDevAttrComputeCapabilityMajor, &major}, std::pair{cudaDevAttrComputeCapabilityMinor, &minor},
        std::pair{cudaDevAttrMultiProcessorCount, &device->num_multiprocessors}}) {
    if (Status status = CudaStatus(cudaDeviceGetAttribute(value, attribute, device->ordinal), what); !status.ok()) {
      return status;
    }
  }
  device->compute_capability = 10 * major + minor;
  if (device->compute_capability < 80) {
    return {StatusCode::kUnsupported, "the GPU has compute capability " + std::to_string(major) + "." +
                                          std::to_string(minor) +
                                          ": the CUDA executors need 8.0 or newer; run on the CPU."};
  }
  return {};
}

}  // namespace headscope::kernels
