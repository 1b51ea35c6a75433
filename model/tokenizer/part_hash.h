// SPDX-License-Identifier: Apache-2.0
// Hashes of a text's beginnings and ends, one step each, whose collisions nobody can choose: as SeededHash, byte by
// byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/seeded_hash.h"

namespace headscope::model {

// A text at a time, of at most `most` bytes. begin(n) of a text and whole() of another are the same where the texts
// are.
class PartHash {
 public:
  explicit PartHash(size_t most) : powers_{1}, sums_(most + 1) {
    for (size_t i = 0; i < most; ++i) powers_.push_back(SeededHash::Times(powers_.back(), point_));
  }
  void Take(std::string_view text) {
    size_ = text.size();
    for (size_t i = 0; i < size_; ++i)
      sums_[i + 1] = SeededHash::Sum(SeededHash::Times(sums_[i], point_), static_cast<uint8_t>(text[i]) + 1U);
  }
  // Of its first bytes, of those behind them, and of all.
  size_t begin(size_t bytes) const { return hash_.Spread(sums_[bytes]); }
  size_t end(size_t bytes) const {
    return hash_.Spread(SeededHash::Less(sums_[size_], SeededHash::Times(sums_[bytes], powers_[size_ - bytes])));
  }
  size_t whole() const { return begin(size_); }

 private:
  SeededHash hash_;
  const uint64_t point_ = hash_.point();
  std::vector<uint64_t> powers_;  // of the point
  std::vector<uint64_t> sums_;    // of the text's beginnings
  size_t size_ = 0;
};

}  // namespace headscope::model
