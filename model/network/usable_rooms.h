// SPDX-License-Identifier: Apache-2.0
// Which of a machine's GPUs a model may be placed on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/device.h"
#include "model/layer_placement.h"

namespace headscope::model {

// A room for each of `count` GPUs whose `free_bytes(int32_t ordinal)` says how much of it is free: one that throws is
// broken, and is passed over for that reason.
template <typename FreeBytes>
MachineRooms UsableRooms(int32_t count, const FreeBytes& free_bytes) {
  MachineRooms all;
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    try {
      all.rooms.push_back({CudaDevice(ordinal), std::max<int64_t>(0, free_bytes(ordinal))});
    } catch (const std::exception& error) {  // the others can be used
      all.passed_over.push_back({CudaDevice(ordinal), error.what()});
    }
  }
  return all;
}

// Whether a folder of PCI devices, as the system lists them, has an NVIDIA GPU, with or without a driver.
inline bool HasNvidiaGpu(const std::filesystem::path& pci_devices = "/sys/bus/pci/devices") {
  const auto begins = [](const std::filesystem::path& file, std::string_view wanted) {
    std::string text;
    std::ifstream(file) >> text;
    return text.starts_with(wanted);
  };
  std::error_code absent;
  for (const auto& device : std::filesystem::directory_iterator(pci_devices, absent)) {
    if (begins(device.path() / "vendor", "0x10de") && begins(device.path() / "class", "0x03")) return true;
  }
  return false;
}

}  // namespace headscope::model
