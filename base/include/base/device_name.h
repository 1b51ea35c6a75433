// SPDX-License-Identifier: Apache-2.0
// The names of the devices that headscope computes on.
#pragma once

#include <cstdint>
#include <string>

namespace headscope {

struct DeviceName {
  bool is_gpu = false;
  int32_t gpu = 0;  // CUDA's number
};

// "cpu", "cuda" (the first GPU) or "cuda:N". Says nothing of whether that device exists. Throws std::invalid_argument
// for anything else.
DeviceName ParseDeviceName(const std::string& text);

}  // namespace headscope
