// SPDX-License-Identifier: Apache-2.0
#include "base/device.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/quoted_text.h"

namespace headscope {
namespace {

constexpr std::string_view kCpuName = "cpu";

}  // namespace

NamedDevice NamedCpu() {
  return {kCpu, std::string(kCpuName)};
}

NamedDevice DeviceOfName(std::string name) {
  const bool gpu = !name.empty() && name != kCpuName;
  return {gpu ? CudaDevice(0) : kCpu, std::move(name)};
}

Device ParseDevice(const std::string& text) {
  constexpr int32_t kMostGpus = 128;  // LibTorch counts them in 8 bits
  if (text == kCpuName) return kCpu;
  if (text == "cuda") return CudaDevice(0);
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const char* const first = text.data() + kPrefix.size();
    const char* const last = text.data() + text.size();
    int32_t gpu = -1;
    const auto [end, error] = std::from_chars(first, last, gpu);
    if (error == std::errc() && end == last && gpu >= 0 && gpu < kMostGpus) return CudaDevice(gpu);
  }
  throw UsageError({.field = "device",
                    .value = Quoted(text),
                    .problem = "it must be cpu, cuda or cuda:N (N is a GPU's number, from 0)"});
}

std::string DeviceText(const Device& device) {
  return device.is_gpu() ? "cuda:" + std::to_string(device.ordinal) : std::string(kCpuName);
}

}  // namespace headscope
