// SPDX-License-Identifier: Apache-2.0
#include "trigram.h"

#include <algorithm>

namespace headscope::eval {
namespace {

constexpr uint64_t kNone = (1U << 21) - 1;
constexpr double kDiscount = 0.75;

uint64_t Id(int32_t token) {
  return static_cast<uint64_t>(token);
}

}  // namespace

void TrigramModel::Count(std::span<const int32_t> tokens) {
  const auto add = [&](uint64_t history, uint64_t sequence) {
    History& after = histories_[history];
    ++after.total;
    if (++sequences_[sequence] == 1) ++after.kinds;
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    ++unigrams_[tokens[i]];
    ++total_;
    if (i >= 1) add(Key(kNone, kNone, Id(tokens[i - 1])), Key(kNone, Id(tokens[i - 1]), Id(tokens[i])));
    if (i >= 2) {
      add(Key(kNone - 1, Id(tokens[i - 2]), Id(tokens[i - 1])),
          Key(Id(tokens[i - 2]), Id(tokens[i - 1]), Id(tokens[i])));
    }
  }
}

double TrigramModel::Discounted(uint64_t history, uint64_t sequence, double lower) const {
  const auto after = histories_.find(history);
  if (after == histories_.end()) return lower;
  const auto seen = sequences_.find(sequence);
  const double count = seen == sequences_.end() ? 0 : static_cast<double>(seen->second);
  const auto total = static_cast<double>(after->second.total);
  return std::max(count - kDiscount, 0.0) / total +
         kDiscount * static_cast<double>(after->second.kinds) / total * lower;
}

double TrigramModel::Probability(std::span<const int32_t> tokens, size_t at) const {
  const uint64_t a = Id(tokens[at - 2]);
  const uint64_t b = Id(tokens[at - 1]);
  const uint64_t c = Id(tokens[at]);
  const auto seen = unigrams_.find(tokens[at]);
  const double count = seen == unigrams_.end() ? 0 : static_cast<double>(seen->second);
  const double unigram = (count + 1) / (static_cast<double>(total_) + vocabulary_size_);
  const double bigram = Discounted(Key(kNone, kNone, b), Key(kNone, b, c), unigram);
  return Discounted(Key(kNone - 1, a, b), Key(a, b, c), bigram);
}

}  // namespace headscope::eval
