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

// What computed something. Code decides by the device; its name is for people.
struct NamedDevice {
  Device device;
  std::string name;  // "cpu", or the GPU's own name; empty: not known

  bool is_gpu() const { return device.is_gpu(); }
  bool operator==(const NamedDevice&) const = default;
};
NamedDevice NamedCpu();
// The device of a file that has its name alone: whatever is not the CPU is the first GPU, since its number is not
// known.
NamedDevice DeviceOfName(std::string name);

// "cpu", "cuda" (the first GPU) or "cuda:N". Says nothing of whether that device exists. Throws UsageError, of the
// field "device", for anything else.
Device ParseDevice(const std::string& text);
// "cpu" or "cuda:N".
std::string DeviceText(const Device& device);

}  // namespace headscope
