// SPDX-License-Identifier: Apache-2.0
// The device of the commands that run methods (--device).
#pragma once

#include <string>

#include "analysis/head_tensors.h"

namespace headscope::app {

// Makes the GPU that `device` names (capture/device_name.h) the calling thread's, for every kernel that this thread
// launches from now on; of the CPU there is nothing to choose. Throws std::invalid_argument for another word,
// DeviceError when there is no usable GPU or none of that number.
void UseDevice(const std::string& device);
// The same, and where the heads of traces then belong.
analysis::HeadPlace UseDeviceForHeads(const std::string& device);

}  // namespace headscope::app
