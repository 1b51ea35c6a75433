// SPDX-License-Identifier: Apache-2.0
#include "trace/compressed_chunk.h"

#include <zlib.h>

#include <vector>

namespace headscope::data {

bool ReadCompressedChunk(std::span<const char> stored, int64_t number_bytes, std::span<char> out) {
  std::vector<char> shuffled(out.size());
  // A chunk has at most 16 MiB, so both lengths fit.
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return false;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data()));
  stream.avail_in = static_cast<uInt>(stored.size());
  stream.next_out = reinterpret_cast<Bytef*>(shuffled.data());
  stream.avail_out = static_cast<uInt>(shuffled.size());
  const int end = inflate(&stream, Z_FINISH);
  const bool whole = end == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
  inflateEnd(&stream);
  if (!whole) return false;
  const auto width = static_cast<size_t>(number_bytes), count = out.size() / width;
  for (size_t byte = 0; byte < width; ++byte) {
    const char* const from = shuffled.data() + byte * count;
    for (size_t i = 0; i < count; ++i) out[i * width + byte] = from[i];
  }
  return true;
}

uint64_t MostCompressedBytes(uint64_t bytes) {
  return compressBound(static_cast<uLong>(bytes));
}

}  // namespace headscope::data
