// SPDX-License-Identifier: Apache-2.0
// The GPU of a build without CUDA: a sentence.
#include "base/check_status.h"
#include "bench/bench_device.h"
#include "kernels/cuda_devices.h"

namespace headscope::app::bench {

std::unique_ptr<BenchDevice> MakeCudaDevice(const DeviceOptions&) {
  std::string name;
  CheckStatus(kernels::NameOfCudaDevice(&name));
  return nullptr;  // not reached: a build without CUDA always refuses
}

}  // namespace headscope::app::bench
