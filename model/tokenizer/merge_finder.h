// SPDX-License-Identifier: Apache-2.0
// Every way to make a token of two others, for files that list tokens and no merges. Time in proportion to the tokens'
// bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/part_hash.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {

// `TextOf(size_t place)` is a token's text of at most `longest` bytes; an empty one takes no part. Of equal texts the
// first counts. Four bytes a slot: a file may hold millions of tokens.
template <typename TextOf>
class MergeFinder {
 public:
  MergeFinder(size_t count, size_t longest, TextOf text_of)
      : count_(count), text_of_(std::move(text_of)), hash_(longest) {
    size_t used = 0;
    for (size_t place = 0; place < count; ++place) used += text_of_(place).empty() ? 0 : 1;
    size_t size = 16;
    while (size < 2 * used) size *= 2;
    slots_.assign(size, -1);
    for (size_t place = 0; place < count; ++place) {
      if (text_of_(place).empty()) continue;
      hash_.Take(text_of_(place));
      int32_t& slot = slots_[SlotOf(text_of_(place), hash_.whole())];
      if (slot < 0) slot = static_cast<int32_t>(place);
    }
  }

  // The place of the first token of that text, which is that of another one or its own.
  size_t FirstLike(size_t place) {
    hash_.Take(text_of_(place));
    return static_cast<size_t>(Find(text_of_(place), hash_.whole()));
  }

  // `visit(int32_t left, int32_t right, int32_t whole)`, by places, for each token in turn. `by_characters`: tokens are
  // UTF-8 and are only cut between characters.
  template <typename Visit>
  void ForEachMerge(bool by_characters, const Visit& visit) {
    const auto step = [&](std::string_view rest) { return by_characters ? FrontCharacter(rest).length : 1; };
    for (size_t place = 0; place < count_; ++place) {
      const std::string_view text = text_of_(place);
      if (text.empty() || FirstLike(place) != place) continue;
      for (size_t cut = step(text); cut < text.size(); cut += step(text.substr(cut))) {
        const int32_t left = Find(text.substr(0, cut), hash_.begin(cut));
        const int32_t right = left < 0 ? -1 : Find(text.substr(cut), hash_.end(cut));
        if (right >= 0) visit(left, right, static_cast<int32_t>(place));
      }
    }
  }

 private:
  int32_t Find(std::string_view text, size_t hash) const { return slots_[SlotOf(text, hash)]; }
  size_t SlotOf(std::string_view text, size_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t at = hash & mask;
    while (slots_[at] >= 0 && text_of_(static_cast<size_t>(slots_[at])) != text) at = (at + 1) & mask;
    return at;
  }
  size_t count_;
  TextOf text_of_;
  PartHash hash_;
  std::vector<int32_t> slots_;  // a power of two of them, at most half in use; -1: free
};

}  // namespace headscope::model
