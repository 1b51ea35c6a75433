// The GPU of a build without CUDA: a sentence.
#include "bench/device.h"
#include "kernels/cuda_executor.h"

namespace headscope::app::bench {

std::unique_ptr<Device> MakeCudaDevice(const DeviceOptions&) {
  kernels::CudaDeviceInfo info;
  Require(kernels::QueryCudaDevice(0, &info));
  return nullptr;  // not reached: a build without CUDA always refuses
}

}  // namespace headscope::app::bench
