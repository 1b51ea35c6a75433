// SPDX-License-Identifier: Apache-2.0
// The bytes of every token, by id. Ids may have holes: memory follows the tokens there are, not the largest id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::model {

class TokenTable {
 public:
  void Reserve(size_t count) { rows_.reserve(count); }
  void Add(int32_t id, std::string_view bytes, bool special);
  // After the last Add. Returns an id that was given to two different texts, if there is one. Of one token that was
  // added twice, being special in one place is enough.
  std::optional<int32_t> Sort();

  struct Token {
    std::string_view bytes;
    bool special = false;  // left out of decoded text
  };
  std::optional<Token> Find(int32_t id) const;  // after Sort
  // `visit(int32_t id, std::string_view bytes)` for every token, in the order of the ids; after Sort. The views last as
  // long as the table.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Row& row : rows_) visit(row.id, BytesOf(row));
  }
  size_t count() const { return rows_.size(); }
  int32_t end_id() const { return rows_.empty() ? 0 : rows_.back().id + 1; }  // after Sort

 private:
  struct Row {
    int32_t id;
    uint32_t begin;  // in bytes_; the whole of a file has less than 4 GiB
    uint32_t length : 31;
    uint32_t special : 1;
  };
  std::string_view BytesOf(const Row& row) const { return std::string_view(bytes_).substr(row.begin, row.length); }
  std::vector<Row> rows_;
  std::string bytes_;
};

}  // namespace headscope::model
