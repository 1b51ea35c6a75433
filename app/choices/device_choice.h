// SPDX-License-Identifier: Apache-2.0
// The device of the commands that run methods.
#pragma once

#include "base/device.h"

namespace headscope::app {

// Makes that GPU the calling thread's, for every kernel that this thread launches from now on; of the CPU there is
// nothing to choose. Throws DeviceError when there is no usable GPU or none of that number.
void UseDevice(const Device& device);

}  // namespace headscope::app
