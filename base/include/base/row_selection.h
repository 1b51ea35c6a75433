// SPDX-License-Identifier: Apache-2.0
// Which query rows of a prompt are recorded, as people type it: the one reader of --rows, for a capture and for whoever
// says beforehand what it will take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headscope {

// "all", "last:N" (the last N rows of the prompt), "every:N" (rows 0, N, 2N, ... of the prompt), "random:N" (N rows
// of the prompt, the same on every machine; "random:N:SEED" for others) or "A:B" (rows A to B-1; "A:B,C:D" of several
// ranges). Rows of decode steps are always recorded: they exist only because they were asked for.
class RowSelection {
 public:
  // Throws UsageError, of the field `field`.
  explicit RowSelection(const std::string& text, const std::string& field = "rows");
  // The same of a field that takes some of the rows: "all" is refused like what is no selection.
  static RowSelection SomeOf(const std::string& text, const std::string& field);
  const std::string& field() const { return field_; }
  // Draws the random rows of a prompt of so many tokens, before Keeps is asked about it. Throws UsageError for a range
  // that ends behind the prompt.
  void Draw(int64_t prompt_tokens);
  // `position` of a token in a prompt of `prompt_tokens`, or after it.
  bool Keeps(int64_t position, int64_t prompt_tokens) const;
  // Rows kept of a prompt of `prompt_tokens`, decode rows not counted. Of ranges those that the prompt has, so that it
  // may be asked before the prompt's length is known for certain.
  int64_t Count(int64_t prompt_tokens) const;

 private:
  enum class Kind { kAll, kLast, kEvery, kRandom, kRanges } kind_ = Kind::kAll;
  RowSelection(const std::string& text, const std::string& field, bool may_be_all);
  void ParseRanges();
  [[noreturn]] void Refuse(const std::string& problem) const;
  struct Range {
    int64_t begin, end;
  };
  std::string text_, field_;
  int64_t count_ = 1;
  uint64_t seed_ = 1;
  std::vector<int64_t> drawn_;  // sorted
  std::vector<Range> ranges_;   // rising, none touching another
};

}  // namespace headscope
