// SPDX-License-Identifier: Apache-2.0
#include "commands/device_choice.h"

#include "base/check_status.h"
#include "base/device.h"
#include "kernels/cuda_devices.h"

namespace headscope::app {

void UseDevice(const Device& device) {
  if (device.is_gpu()) CheckStatus(kernels::UseCudaDevice(device.ordinal), "--device " + DeviceText(device));
}

analysis::HeadPlace PlaceOfHeads(const Device& device) {
  return device.is_gpu() ? analysis::HeadPlace::kGpuWhereExact : analysis::HeadPlace::kCpu;
}

analysis::HeadPlace UseDeviceForHeads(const Device& device) {
  UseDevice(device);
  return PlaceOfHeads(device);
}

}  // namespace headscope::app
