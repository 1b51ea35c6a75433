// SPDX-License-Identifier: Apache-2.0
// "decode/NAME", the decode method where both phases have one of its name.
#pragma once

#include <string>
#include <string_view>

namespace headscope::kernels {

inline constexpr std::string_view kDecodePrefix = "decode/";

// A name without "decode/", and one with it.
inline std::string_view WithoutPhase(std::string_view name) {
  if (name.starts_with(kDecodePrefix)) name.remove_prefix(kDecodePrefix.size());
  return name;
}
inline std::string DecodeName(std::string_view name) {
  return std::string(kDecodePrefix).append(name);
}

}  // namespace headscope::kernels
