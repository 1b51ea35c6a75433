// SPDX-License-Identifier: Apache-2.0
// A small generator whose numbers are the same on every machine and with every standard library: std::distributions
// promise neither.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  // Uniform below `bound` (at least 1), without bias: draws in the incomplete last stretch are drawn again.
  size_t Below(size_t bound) {
    const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t drawn = Next();
    while (drawn >= limit) drawn = Next();
    return static_cast<size_t>(drawn % bound);
  }

 private:
  uint64_t state_;
};

}  // namespace headscope
