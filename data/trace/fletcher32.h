// SPDX-License-Identifier: Apache-2.0
// The checksum behind every chunk of a trace: HDF5's filter 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headscope::data {

inline constexpr uint64_t kChecksumBytes = 4;  // behind what it is the sum of

// Over big-endian 16-bit words, with a last odd byte as the upper half of one; bit for bit what HDF5 stores.
uint32_t Fletcher32(const void* data, size_t bytes);
// The same of `bytes` bytes of which only the first `used`, an even number of them or all, are not zero; the others are
// not read.
uint32_t Fletcher32OfBegun(const void* data, size_t used, size_t bytes);

using Fletcher32Function = uint32_t (*)(const unsigned char* data, size_t used, size_t bytes);
// Every way in which this machine can compute it; the last is the fastest, which Fletcher32 takes.
std::vector<Fletcher32Function> Fletcher32Functions();

}  // namespace headscope::data
