// SPDX-License-Identifier: Apache-2.0
// Sizes of memory and files as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace headscope {

// "512 B", "1.3 MiB": in the largest unit that there is one of.
std::string ByteText(int64_t bytes);
// "12.5 of 36.8 MiB": both in the total's unit.
std::string ByteText(int64_t done, int64_t total);

}  // namespace headscope
