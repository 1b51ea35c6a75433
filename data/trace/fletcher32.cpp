// SPDX-License-Identifier: Apache-2.0
#include "trace/fletcher32.h"

namespace headscope::data {
namespace {

#if defined(__x86_64__)
#define HEADSCOPE_INLINE inline __attribute__((always_inline))
#else
#define HEADSCOPE_INLINE inline
#endif

HEADSCOPE_INLINE uint32_t Fold(uint32_t sum) {
  return (sum & 0xffff) + (sum >> 16);
}

HEADSCOPE_INLINE uint32_t SumOf(const unsigned char* at, size_t used, size_t bytes) {
  constexpr size_t kBlock =
      360;  // words, the most whose sums fit 32 bits; part of the definition, as sums fold after it
  uint32_t sum1 = 0, sum2 = 0;
  size_t left = used / 2;  // words that are not zero
  for (size_t words = bytes / 2; words > 0;) {
    const size_t count = words < kBlock ? words : kBlock;
    words -= count;
    const size_t there = left < count ? left : count;
    left -= there;
    // sum2 adds up sum1 after every word. As two sums that do not wait for each other, a compiler makes vectors of it.
    uint32_t plain = 0, weighted = 0;
    for (size_t i = 0; i < there; ++i) {
      const auto word = static_cast<uint32_t>(at[2 * i] << 8 | at[2 * i + 1]);
      plain += word;
      weighted += word * static_cast<uint32_t>(count - i);
    }
    at += 2 * there;
    sum2 = Fold(sum2 + sum1 * static_cast<uint32_t>(count) + weighted);
    sum1 = Fold(sum1 + plain);
  }
  if (bytes % 2 != 0) {
    if (used == bytes) sum1 += static_cast<uint32_t>(*at) << 8;
    sum2 += sum1;
    sum1 = Fold(sum1);
    sum2 = Fold(sum2);
  }
  return Fold(sum2) << 16 | Fold(sum1);
}

uint32_t SumPlainly(const unsigned char* at, size_t used, size_t bytes) {
  return SumOf(at, used, bytes);
}

#if defined(__x86_64__)
// The same by wider vectors: summing up takes as long as writing to the page cache by those that every processor has,
// and a fifth of that by the widest.
__attribute__((target("avx2"))) uint32_t SumBy256Bits(const unsigned char* at, size_t used, size_t bytes) {
  return SumOf(at, used, bytes);
}
__attribute__((target("avx512f,avx512bw"))) uint32_t SumBy512Bits(const unsigned char* at, size_t used, size_t bytes) {
  return SumOf(at, used, bytes);
}
#endif

}  // namespace

std::vector<Fletcher32Function> Fletcher32Functions() {
  std::vector<Fletcher32Function> functions = {SumPlainly};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) functions.push_back(SumBy256Bits);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) functions.push_back(SumBy512Bits);
#endif
  return functions;
}

uint32_t Fletcher32OfBegun(const void* data, size_t used, size_t bytes) {
  static const Fletcher32Function fastest = Fletcher32Functions().back();
  return fastest(static_cast<const unsigned char*>(data), used, bytes);
}

uint32_t Fletcher32(const void* data, size_t bytes) {
  return Fletcher32OfBegun(data, bytes, bytes);
}

}  // namespace headscope::data
