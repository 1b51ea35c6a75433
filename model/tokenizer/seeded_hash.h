// SPDX-License-Identifier: Apache-2.0
// A hash whose collisions nobody can choose: a polynomial modulo 2^61 - 1 at a point that is drawn when the program
// starts.
//
// Two different texts of n bytes collide with a probability of at most (n / 7 + 2) / 2^61, whoever wrote them, as long
// as they were written before the point was drawn. The standard library's hash has no seed, and files exist whose keys
// all share one of its values. Use std::map or sorting where order is wanted anyway.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace headscope::model {

class SeededHash {
 public:
  using is_transparent = void;

  size_t operator()(std::string_view text) const {
    constexpr size_t kBlock = 7;
    uint64_t sum = text.size();
    size_t at = 0;
    for (; at + kBlock <= text.size(); at += kBlock) sum = Step(sum, Load(text.data() + at, kBlock));
    if (at < text.size()) sum = Step(sum, Load(text.data() + at, text.size() - at));
    return Spread(sum);
  }
  size_t operator()(uint64_t number) const { return Spread(Step(Step(1, number >> 32), number & 0xFFFFFFFFU)); }

  // What it is made of: arithmetic modulo the prime, of numbers below it, and the point.
  static constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
  static uint64_t Times(uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return Sum(static_cast<uint64_t>(product & kPrime), static_cast<uint64_t>(product >> 61));
  }
  static uint64_t Sum(uint64_t a, uint64_t b) { return a + b >= kPrime ? a + b - kPrime : a + b; }
  static uint64_t Less(uint64_t a, uint64_t b) { return a >= b ? a - b : a + kPrime - b; }
  uint64_t point() const { return seeds_.point; }
  // Tables take the low bits: gives them the high ones of a product.
  size_t Spread(uint64_t sum) const {
    const uint64_t spread = sum * seeds_.spread;
    return spread >> 32 ^ spread << 32;
  }

 private:
  struct Seeds {
    Seeds() {
      std::random_device device;
      const auto draw = [&] { return (uint64_t{device()} << 32 | device()); };
      point = draw() % (kPrime - 2) + 2;
      spread = draw() | 1;
    }
    uint64_t point, spread;
  };
  static const Seeds& TheSeeds() {
    static const Seeds seeds;
    return seeds;
  }
  static uint64_t Load(const char* bytes, size_t count) {
    uint64_t value = 0;
    std::memcpy(&value, bytes, count);
    return value;
  }
  // A block of seven bytes is below the prime.
  uint64_t Step(uint64_t sum, uint64_t block) const { return Sum(Times(sum, seeds_.point), block); }

  const Seeds& seeds_ = TheSeeds();
};

}  // namespace headscope::model
