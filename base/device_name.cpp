// SPDX-License-Identifier: Apache-2.0
#include "base/device_name.h"

#include <charconv>
#include <stdexcept>
#include <string_view>

namespace headscope {

DeviceName ParseDeviceName(const std::string& text) {
  constexpr int32_t kMostGpus = 128;  // LibTorch counts them in 8 bits
  if (text == "cpu") return {};
  if (text == "cuda") return {.is_gpu = true, .gpu = 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const char* const first = text.data() + kPrefix.size();
    const char* const last = text.data() + text.size();
    int32_t gpu = -1;
    const auto [end, error] = std::from_chars(first, last, gpu);
    if (error == std::errc() && end == last && gpu >= 0 && gpu < kMostGpus) return {.is_gpu = true, .gpu = gpu};
  }
  throw std::invalid_argument("device " + text + ": it must be cpu, cuda or cuda:N (N is a GPU's number, from 0)");
}

}  // namespace headscope
