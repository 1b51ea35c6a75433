#include "device_choice.h"

#include "capture/device_name.h"
#include "head_results.h"
#include "kernels/cuda_devices.h"

namespace headscope::app {

void UseDevice(const std::string& device) {
  const capture::DeviceName wanted = capture::ParseDeviceName(device);
  if (wanted.is_gpu) CheckStatus(kernels::UseCudaDevice(wanted.gpu), "--device " + device);
}

}  // namespace headscope::app
