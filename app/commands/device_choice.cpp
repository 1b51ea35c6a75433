// SPDX-License-Identifier: Apache-2.0
#include "commands/device_choice.h"

#include "base/device_name.h"
#include "commands/head_results.h"
#include "kernels/cuda_devices.h"

namespace headscope::app {

void UseDevice(const std::string& device) {
  const DeviceName wanted = ParseDeviceName(device);
  if (wanted.is_gpu) CheckStatus(kernels::UseCudaDevice(wanted.gpu), "--device " + device);
}

analysis::HeadPlace UseDeviceForHeads(const std::string& device) {
  UseDevice(device);
  return ParseDeviceName(device).is_gpu ? analysis::HeadPlace::kGpuWhereExact : analysis::HeadPlace::kCpu;
}

}  // namespace headscope::app
