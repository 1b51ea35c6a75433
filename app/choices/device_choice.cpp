// SPDX-License-Identifier: Apache-2.0
#include "choices/device_choice.h"

#include "base/check_status.h"
#include "base/device.h"
#include "kernels/cuda_devices.h"

namespace headscope::app {

void UseDevice(const Device& device) {
  if (!device.is_gpu()) return;
  CheckStatus(kernels::UseCudaDevice(device.ordinal), Fault{.field = "device", .value = DeviceText(device)});
}

}  // namespace headscope::app
