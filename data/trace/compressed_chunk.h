// SPDX-License-Identifier: Apache-2.0
// A chunk as HDF5's filters shuffle and deflate leave it: the first bytes of all numbers, then the second ones and so
// on, as a zlib stream.
#pragma once

#include <cstdint>
#include <span>

namespace headscope::data {

// Fills `out`, a whole number of numbers of `number_bytes` each. False where the stream is damaged, or is not of
// exactly so many bytes: it takes no more memory than `out` again, whatever it says.
bool ReadCompressedChunk(std::span<const char> stored, int64_t number_bytes, std::span<char> out);

// The most bytes that HDF5's filter may make of `bytes`, which a stream of more is refused by.
uint64_t MostCompressedBytes(uint64_t bytes);

}  // namespace headscope::data
