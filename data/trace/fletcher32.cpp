// SPDX-License-Identifier: Apache-2.0
#include "trace/fletcher32.h"

#include <algorithm>

namespace headscope::data {
namespace {

uint32_t Fold(uint32_t sum) {
  return (sum & 0xffff) + (sum >> 16);
}

}  // namespace

uint32_t Fletcher32(const void* data, size_t bytes) {
  constexpr size_t kBlock =
      360;  // words, the most whose sums fit 32 bits; part of the definition, as sums fold after it
  const auto* at = static_cast<const unsigned char*>(data);
  uint32_t sum1 = 0, sum2 = 0;
  for (size_t words = bytes / 2; words > 0;) {
    const size_t count = std::min(words, kBlock);
    words -= count;
    // sum2 adds up sum1 after every word. As two sums that do not wait for each other, a compiler makes vectors of it.
    uint32_t plain = 0, weighted = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto word = static_cast<uint32_t>(at[2 * i] << 8 | at[2 * i + 1]);
      plain += word;
      weighted += word * static_cast<uint32_t>(count - i);
    }
    at += 2 * count;
    sum2 = Fold(sum2 + sum1 * static_cast<uint32_t>(count) + weighted);
    sum1 = Fold(sum1 + plain);
  }
  if (bytes % 2 != 0) {
    sum1 += static_cast<uint32_t>(*at) << 8;
    sum2 += sum1;
    sum1 = Fold(sum1);
    sum2 = Fold(sum2);
  }
  return Fold(sum2) << 16 | Fold(sum1);
}

}  // namespace headscope::data
