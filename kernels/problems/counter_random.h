// SPDX-License-Identifier: Apache-2.0
// Random numbers by counter: number i of a stream depends on (key, i) alone, so that any thread, any device and any
// language makes the same ones in any order.
//
// Source: the output function of SplitMix64 (Steele, Lea and Flood: Fast splittable pseudorandom number generators,
// OOPSLA 2014); number i of stream `key` is output i + 1 of the generator seeded with `key`.
#pragma once

#include <cstdint>

namespace headscope::kernels::problems {

inline uint64_t RandomAt(uint64_t key, uint64_t i) {
  uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Number i of stream `key` mapped to [0, range), range < 2^32.
inline uint32_t RandomBelow(uint64_t key, uint64_t i, uint32_t range) {
  return static_cast<uint32_t>(((RandomAt(key, i) >> 32) * range) >> 32);
}

}  // namespace headscope::kernels::problems
