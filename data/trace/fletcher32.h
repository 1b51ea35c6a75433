// SPDX-License-Identifier: Apache-2.0
// The checksum behind every chunk of a trace: HDF5's filter 3.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope::data {

inline constexpr uint64_t kChecksumBytes = 4;  // behind what it is the sum of

// Over big-endian 16-bit words, with a last odd byte as the upper half of one; bit for bit what HDF5 stores.
uint32_t Fletcher32(const void* data, size_t bytes);

}  // namespace headscope::data
