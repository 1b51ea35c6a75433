// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/token_finder.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace headscope::model {
namespace {

unsigned char FromBack(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[text.size() - 1 - i]);
}

bool BackwardsLess(std::string_view a, std::string_view b) {
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend(), [](char x, char y) {
    return static_cast<unsigned char>(x) < static_cast<unsigned char>(y);
  });
}

}  // namespace

TokenFinder::TokenFinder(const std::vector<std::string_view>& patterns) {
  for (const std::string_view pattern : patterns) lengths_.push_back(static_cast<uint32_t>(pattern.size()));
  MakeStates(patterns);
  MakeFallbacks();
}

void TokenFinder::MakeStates(const std::vector<std::string_view>& patterns) {
  std::vector<uint32_t> sorted(patterns.size());
  std::iota(sorted.begin(), sorted.end(), 0U);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](uint32_t a, uint32_t b) { return BackwardsLess(patterns[a], patterns[b]); });
  // A state is the range of sorted patterns that end in its text; a level of states makes the next one.
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> level = {{0, sorted.size()}};
  bytes_.push_back(0);
  for (size_t depth = 0; !level.empty(); ++depth) {
    std::vector<Range> next;
    for (const Range& range : level) {
      size_t at = range.begin;
      // The shortest come first: those that are the state's whole text.
      uint32_t own = 0;
      for (; at < range.end && patterns[sorted[at]].size() == depth; ++at) {
        if (own == 0) own = sorted[at] + 1;
      }
      patterns_.push_back(own);
      children_.push_back(static_cast<uint32_t>(bytes_.size()));
      while (at < range.end) {
        const unsigned char byte = FromBack(patterns[sorted[at]], depth);
        const size_t begin = at;
        while (at < range.end && FromBack(patterns[sorted[at]], depth) == byte) ++at;
        next.push_back({begin, at});
        bytes_.push_back(byte);
      }
    }
    level = std::move(next);
  }
  children_.push_back(static_cast<uint32_t>(bytes_.size()));
  for (uint32_t child = children_[0]; child < children_[1]; ++child) first_[bytes_[child]] = child;
}

void TokenFinder::MakeFallbacks() {
  fallbacks_.assign(bytes_.size(), 0);
  for (uint32_t state = 0; state < bytes_.size(); ++state) {
    for (uint32_t child = children_[state]; child < children_[state + 1]; ++child) {
      if (state > 0) fallbacks_[child] = Step(fallbacks_[state], bytes_[child]);
      if (patterns_[child] == 0) patterns_[child] = patterns_[fallbacks_[child]];
    }
  }
}

uint32_t TokenFinder::Child(uint32_t state, unsigned char byte) const {
  if (state == 0) return first_[byte];
  const auto begin = bytes_.begin() + children_[state];
  const auto end = bytes_.begin() + children_[state + 1];
  const auto at = std::lower_bound(begin, end, byte);
  return at != end && *at == byte ? static_cast<uint32_t>(at - bytes_.begin()) : 0;
}

uint32_t TokenFinder::Step(uint32_t state, unsigned char byte) const {
  for (;;) {
    if (const uint32_t child = Child(state, byte); child != 0) return child;
    if (state == 0) return 0;
    state = fallbacks_[state];
  }
}

std::vector<TokenFinder::Match> TokenFinder::Find(std::string_view text) const {
  if (text.size() > UINT32_MAX) throw std::invalid_argument("a text of 4 GiB is too long for a tokenizer");
  std::vector<Match> found;
  if (lengths_.empty()) return found;
  uint32_t state = 0;
  for (size_t at = text.size(); at-- > 0;) {
    state = Step(state, static_cast<unsigned char>(text[at]));
    if (const uint32_t pattern = patterns_[state]; pattern != 0)
      found.push_back({pattern - 1, static_cast<uint32_t>(at)});
  }
  std::reverse(found.begin(), found.end());
  size_t done = 0;
  std::erase_if(found, [&](const Match& match) {
    if (match.begin < done) return true;
    done = match.begin + lengths_[match.pattern];
    return false;
  });
  return found;
}

}  // namespace headscope::model
