// SPDX-License-Identifier: Apache-2.0
// Which layers, heads and query rows a capture records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headscope::capture {

// "all", "last:N" (the last N rows of the prompt) or "every:N" (rows 0, N, 2N, ... of the prompt). Rows of decode steps
// are always recorded: they exist only because they were asked for.
class RowSelection {
 public:
  explicit RowSelection(const std::string& text);  // throws UsageError
  // `position` of a token in a prompt of `prompt_tokens`, or after it.
  bool Keeps(int64_t position, int64_t prompt_tokens) const;
  // Rows kept of a prompt of `prompt_tokens`, decode rows not counted.
  int64_t Count(int64_t prompt_tokens) const;

 private:
  enum class Kind { kAll, kLast, kEvery } kind_ = Kind::kAll;
  int64_t count_ = 1;
};

// `chosen` sorted without repeats, all of [0, count) when it is empty. Throws UsageError naming `what` for a
// number outside.
std::vector<int32_t> ChooseNumbers(const std::vector<int32_t>& chosen, int32_t count, const std::string& what);

// The KV heads that the query heads read, sorted.
std::vector<int32_t> KvHeadsOf(const std::vector<int32_t>& qo_heads, int32_t num_qo_heads, int32_t num_kv_heads);

}  // namespace headscope::capture
