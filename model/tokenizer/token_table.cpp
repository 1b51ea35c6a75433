// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/token_table.h"

#include <algorithm>

namespace headscope::model {

void TokenTable::Add(int32_t id, std::string_view bytes, bool special) {
  constexpr uint32_t kLengthBits = 0x7FFFFFFF;
  rows_.push_back(
      {id, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(bytes.size()) & kLengthBits, special ? 1U : 0U});
  bytes_ += bytes;
}

std::optional<int32_t> TokenTable::Sort() {
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.id < b.id; });
  size_t kept = 0;
  for (const Row& row : rows_) {
    if (kept > 0 && rows_[kept - 1].id == row.id) {
      if (BytesOf(rows_[kept - 1]) != BytesOf(row)) return row.id;
      rows_[kept - 1].special |= row.special;
    } else {
      rows_[kept++] = row;
    }
  }
  rows_.resize(kept);
  return std::nullopt;
}

std::optional<TokenTable::Token> TokenTable::Find(int32_t id) const {
  const auto at =
      std::lower_bound(rows_.begin(), rows_.end(), id, [](const Row& row, int32_t wanted) { return row.id < wanted; });
  if (at == rows_.end() || at->id != id) return std::nullopt;
  return Token{BytesOf(*at), at->special != 0};
}

}  // namespace headscope::model
