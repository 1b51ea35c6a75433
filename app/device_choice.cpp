#include "device_choice.h"

#include "capture/device_name.h"
#include "head_results.h"
#include "kernels/cuda_devices.h"

namespace headscope::app {

void UseDevice(const std::string& device) {
  const capture::DeviceName wanted = capture::ParseDeviceName(device);
  if (wanted.is_gpu) CheckStatus(kernels::UseCudaDevice(wanted.gpu), "--device " + device);
}

analysis::HeadPlace UseDeviceForHeads(const std::string& device) {
  UseDevice(device);
  return capture::ParseDeviceName(device).is_gpu ? analysis::HeadPlace::kGpuWhereExact : analysis::HeadPlace::kCpu;
}

}  // namespace headscope::app
