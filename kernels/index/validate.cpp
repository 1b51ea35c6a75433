// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "kernels/sparse_index.h"

namespace headscope::kernels {
namespace {

Status RefuseIndex(const std::string& message) {
  return {StatusCode::kInvalidArgument, message};
}

// Positions, and with them rows and tiles, stay far from the end of 32 bits.
constexpr int64_t kMaxPosition = int64_t{1} << 30;

Status CheckShape(const SparseIndexView& index) {
  auto refuse = [](const char* field, int64_t value, const char* allowed) {
    return RefuseIndex("sparse index: " + std::string(field) + " is " + std::to_string(value) + ", must be " + allowed);
  };
  if (index.batch < 1) return refuse("batch", index.batch, "1 or more");
  if (index.num_qo_heads < 1) return refuse("num_qo_heads", index.num_qo_heads, "1 or more");
  if (index.seq_q < 1) return refuse("seq_q", index.seq_q, "1 or more");
  if (index.seq_k < 1 || index.seq_k >= (1 << 28)) return refuse("seq_k", index.seq_k, "1 to 2^28 - 1");
  if (index.first_position < 0) return refuse("first_position", index.first_position, "0 or more");
  if (const int64_t end = int64_t{index.first_position} + index.seq_q; end > kMaxPosition) {
    return refuse("first_position + seq_q", end, "at most 2^30");
  }
  if (index.tile_rows != 64 && index.tile_rows != 128) return refuse("tile_rows", index.tile_rows, "64 or 128");
  const ElementRule& rule = index.rule;
  if (rule.kind != MaskKind::kNone && rule.kind != MaskKind::kCausal && rule.kind != MaskKind::kCausalWindow) {
    return refuse("rule.kind", static_cast<int64_t>(rule.kind), "none (0), causal (1) or causal window (2)");
  }
  if (rule.kind == MaskKind::kCausalWindow && rule.window < 1) return refuse("rule.window", rule.window, "1 or more");
  if (rule.num_sinks < 0) return refuse("rule.num_sinks", rule.num_sinks, "0 or more");
  if (index.runs_size < 0) return refuse("runs_size", index.runs_size, "0 or more");
  if (index.columns_size < 0) return refuse("columns_size", index.columns_size, "0 or more");
  if (index.run_begin == nullptr || index.run_count == nullptr || index.column_begin == nullptr ||
      index.column_count == nullptr) {
    return RefuseIndex("sparse index: run_begin, run_count, column_begin or column_count is null");
  }
  if (index.runs == nullptr && index.runs_size > 0)
    return RefuseIndex("sparse index: runs is null, runs_size is not 0");
  if (index.columns == nullptr && index.columns_size > 0) {
    return RefuseIndex("sparse index: columns is null, columns_size is not 0");
  }
  return {};
}

// Checks one list; entries are named by their place in the list.
class ListChecker {
 public:
  ListChecker(const SparseIndexView& index, int64_t list) : index_(index), list_(list) {
    const int64_t row = list % index.NumRowTiles() * index.tile_rows;
    first_upper_ = index.first_position + row;
    first_lower_ = first_upper_ + index.tile_rows / 2;
  }

  Status Check() const {
    if (!Fits(index_.run_begin[list_], index_.run_count[list_], index_.runs_size)) {
      return RefuseIndex(Name() + ": run_begin and run_count reach outside of runs");
    }
    if (!Fits(index_.column_begin[list_], index_.column_count[list_], index_.columns_size)) {
      return RefuseIndex(Name() + ": column_begin and column_count reach outside of columns");
    }
    const Status runs = CheckRuns();
    return runs.ok() ? CheckColumns() : runs;
  }

 private:
  static bool Fits(int64_t begin, int32_t count, int64_t size) {
    return begin >= 0 && count >= 0 && begin <= size && count <= size - begin;
  }
  std::string Name() const { return "sparse index: list " + std::to_string(list_); }
  Status RefuseRun(int32_t i, const char* rule) const {
    const KeyRun run = index_.runs[index_.run_begin[list_] + i];
    return RefuseIndex(Name() + ", run " + std::to_string(i) + " (start " + std::to_string(run.start) + ", length " +
                       std::to_string(run.Length()) + ", flags " + std::to_string(run.Flags()) + ") " + rule);
  }
  Status RefuseColumn(int32_t i, const char* rule) const {
    return RefuseIndex(Name() + ", column " + std::to_string(i) + " (" +
                       std::to_string(index_.columns[index_.column_begin[list_] + i]) + ") " + rule);
  }

  Status CheckRuns() const {
    const bool causal = index_.rule.kind != MaskKind::kNone;
    int32_t previous_start = 0;
    int64_t upper_end = 0;
    int64_t lower_end = 0;
    for (int32_t i = 0; i < index_.run_count[list_]; ++i) {
      const KeyRun run = index_.runs[index_.run_begin[list_] + i];
      const bool upper = (run.Flags() & kRunUpperHalf) != 0;
      const bool lower = (run.Flags() & kRunLowerHalf) != 0;
      if (run.Flags() > (kRunPartial | kRunUpperHalf | kRunLowerHalf)) return RefuseRun(i, "has an unknown flag");
      if (upper && lower) return RefuseRun(i, "has both half flags: leave both out for a run of all rows");
      if (run.Length() < 1) return RefuseRun(i, "is empty");
      if (run.start < 0 || run.Length() > index_.seq_k - run.start) return RefuseRun(i, "leaves [0, seq_k)");
      if (run.start < previous_start) return RefuseRun(i, "starts before the preceding run");
      if ((!lower && run.start < upper_end) || (!upper && run.start < lower_end)) {
        return RefuseRun(i, "overlaps a run of the same rows");
      }
      if (causal && !run.Partial() && run.End() - 1 > (lower ? first_lower_ : first_upper_)) {
        return RefuseRun(i, "is full but reaches past the position of its first row");
      }
      previous_start = run.start;
      if (!lower) upper_end = run.End();
      if (!upper) lower_end = run.End();
    }
    return {};
  }

  Status CheckColumns() const {
    const bool causal = index_.rule.kind != MaskKind::kNone;
    const int32_t num_runs = index_.run_count[list_];
    int32_t next_run = 0;
    int64_t covered_until = 0;  // the largest end of the runs that start at or before the column
    for (int32_t i = 0; i < index_.column_count[list_]; ++i) {
      const int32_t* const columns = index_.columns + index_.column_begin[list_];
      const int32_t column = columns[i];
      if (column < 0 || column >= index_.seq_k) return RefuseColumn(i, "leaves [0, seq_k)");
      if (i > 0 && column <= columns[i - 1]) return RefuseColumn(i, "is not larger than the preceding column");
      if (causal && column > first_upper_) return RefuseColumn(i, "is later than the first row of its tile");
      const KeyRun* const runs = index_.runs + index_.run_begin[list_];
      for (; next_run < num_runs && runs[next_run].start <= column; ++next_run) {
        covered_until = std::max<int64_t>(covered_until, runs[next_run].End());
      }
      if (column < covered_until) return RefuseColumn(i, "lies in a run of the list");
    }
    return {};
  }

  const SparseIndexView& index_;
  int64_t list_;
  int64_t first_upper_;
  int64_t first_lower_;
};

}  // namespace

Status Validate(const SparseIndexView& index) {
  Status status = CheckShape(index);
  const int64_t num_lists = status.ok() ? index.NumLists() : 0;
  for (int64_t list = 0; list < num_lists && status.ok(); ++list) status = ListChecker(index, list).Check();
  return status;
}

}  // namespace headscope::kernels
