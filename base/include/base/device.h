// SPDX-License-Identifier: Apache-2.0
// The device that something computes on. Text becomes a device at the door (the command line, a file), once, and a
// device becomes text where it is shown.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace headscope {

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t ordinal = 0;  // of a GPU: CUDA's number, from 0

  bool is_gpu() const { return kind != DeviceKind::kCpu; }
  auto operator<=>(const Device&) const = default;
};

inline constexpr Device kCpu{};
constexpr Device CudaDevice(int32_t ordinal) {
  return {DeviceKind::kCuda, ordinal};
}

// "cpu", "cuda" (the first GPU) or "cuda:N". Says nothing of whether that device exists. Throws UsageError, of the
// field "device", for anything else.
Device ParseDevice(const std::string& text);
// "cpu" or "cuda:N".
std::string DeviceText(const Device& device);

}  // namespace headscope
