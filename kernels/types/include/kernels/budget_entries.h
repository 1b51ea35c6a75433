// SPDX-License-Identifier: Apache-2.0
// Where two budgets take each pair of a head: what a search over many settings reads in place of one index a setting.
//
// For methods whose kept set is a union: whatever the other budget is, a pair is kept when either of the two takes it.
// Each budget has a list of ascending values, and a pair's *entry* is the place of the least value that takes it. So
// the kept set at places (x, y) is the pairs with first <= x or second <= y, as far as the rows attend to them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headscope::kernels {

// Columns [begin, end), which have the same entries; an entry as large as its list has values: none of them takes it.
struct EntryRun {
  int32_t begin = 0, end = 0;
  int32_t first = 0, second = 0;
  friend constexpr bool operator==(const EntryRun&, const EntryRun&) = default;
};

// Of one head (the first of its problem). Calls may come from several threads at once.
class BudgetEntries {
 public:
  explicit BudgetEntries(int32_t block_rows) : block_rows_(block_rows) {}
  virtual ~BudgetEntries() = default;
  BudgetEntries(const BudgetEntries&) = delete;
  BudgetEntries& operator=(const BudgetEntries&) = delete;

  // Rows [block * block_rows, ..) of the problem share their runs: a power of two up to 128.
  int32_t block_rows() const { return block_rows_; }
  // Appends the block's runs: ascending, without gaps, from column 0 to the position of the block's last row at least.
  // Causality is not applied.
  virtual void AppendRuns(int32_t block, std::vector<EntryRun>* runs) const = 0;
  // The first budget is the number of sinks of the index's element rule, and the second its window.
  virtual bool IsElementRule() const { return false; }

 private:
  const int32_t block_rows_;
};

// Appends columns that have one pair of entries, to the last run if that has the same.
inline void AppendEntryRun(int32_t begin, int32_t end, int32_t first, int32_t second, std::vector<EntryRun>* runs) {
  if (begin >= end) return;
  if (!runs->empty() && runs->back().end == begin && runs->back().first == first && runs->back().second == second) {
    runs->back().end = end;
  } else {
    runs->push_back({begin, end, first, second});
  }
}

}  // namespace headscope::kernels
