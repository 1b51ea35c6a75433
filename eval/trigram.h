// SPDX-License-Identifier: Apache-2.0
// A trigram model with interpolated absolute discounting: the yardstick beside a language model's loss.
//
// p(c | a b) = max(n(abc) - D, 0) / n(ab) + D * kinds(ab *) / n(ab) * p(c | b), and likewise down to p(c) = (n(c) + 1)
// / (n + vocabulary). Source: Chen and Goodman, "An empirical study of smoothing techniques for language modeling"
// (1999), with D = 0.75 throughout.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

namespace headscope::eval {

class TrigramModel {
 public:
  explicit TrigramModel(int32_t vocabulary_size) : vocabulary_size_(vocabulary_size) {}
  void Count(std::span<const int32_t> tokens);
  // Probability of tokens[at] after those before it; at >= 2.
  double Probability(std::span<const int32_t> tokens, size_t at) const;

 private:
  struct History {
    int64_t total = 0;  // times something followed
    int64_t kinds = 0;  // different things that did
  };
  // Ids have at most 21 bits, so that three fit one key.
  static uint64_t Key(uint64_t a, uint64_t b, uint64_t c) { return (a << 42) | (b << 21) | c; }
  double Discounted(uint64_t history, uint64_t sequence, double lower) const;
  int32_t vocabulary_size_;
  int64_t total_ = 0;
  std::unordered_map<int32_t, int64_t> unigrams_;
  // Keys of two-token sequences use a marker for the missing first token.
  std::unordered_map<uint64_t, int64_t> sequences_;
  std::unordered_map<uint64_t, History> histories_;
};

}  // namespace headscope::eval
