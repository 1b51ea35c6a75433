// SPDX-License-Identifier: Apache-2.0
// Every pair of two budgets at once: what each keeps, and where enough begins, from one pass over a head's
// probabilities.
//
// For methods that keep what either budget takes (kernels/budget_entries.h). The pairs that places (x, y) drop are
// those with both entries above them, so kept pairs and kept mass of all places are sums over a table of entries. The
// mass of a single row need not be tabled: from the largest first budget down, the least second one that gives the row
// enough only rises, and every pair of the row enters and leaves the sum at most once on that way. Cost: one pass over
// the scores and two additions a pair. Memory for every pair of places: 12 bytes a thread (16 for the mean) during the
// pass, 8 bytes (16) behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/types/mass_distribution.h"
#include "compare/probability_pass.h"
#include "kernels/budget_entries.h"

namespace headscope::analysis {

class SettingFront {
 public:
  // At most, for every pair of places: during the pass and behind it.
  static constexpr int64_t kBytesOfThread = 16, kBytesKept = 16;

  // Enough is `least_mass` of the statistic over the rows of everything that is added.
  SettingFront(int64_t num_first, int64_t num_second, MassStatistic statistic, double least_mass);

  // Adds one recording: a visitor for the pass over its probabilities. `judged`, [num_rows], says whose mass counts;
  // empty: every row's. `head`, `judged`, `entries` and `progress` must outlive it; progress(share of the head's pairs)
  // is called on the caller's thread.
  VisitProbabilities Add(const HeadTensors& head, const std::vector<uint8_t>& judged,
                         const kernels::BudgetEntries& entries, int32_t num_workers,
                         const std::function<void(double)>& progress);
  // After the last recording's pass: makes what the functions below read.
  void Finish();

  // Attended pairs that the places keep.
  int64_t KeptPairs(int64_t first, int64_t second) const;
  // Mean over the rows of the mass that they keep there; of the statistic kMean alone.
  double MeanMass(int64_t first, int64_t second) const;
  // The least place of the second budget that is enough beside this one of the first; the number of its places: none.
  int64_t LeastSecond(int64_t first) const { return least_second_[static_cast<size_t>(first)]; }
  // The same for any share of the mean, of the statistic kMean alone.
  int64_t LeastSecondOfMean(int64_t first, double least_mass) const;

 private:
  // Columns whose entry of one budget is where they are listed, and their entry of the other.
  struct Listed {
    int32_t begin, length, other;
  };
  // One thread's share of the sums, and its buffers.
  struct Part {
    std::vector<int64_t> pairs;  // [first entry, second entry]
    std::vector<uint32_t> rows;  // [first, second]: rows whose least second budget this is beside that first one
    std::vector<double> mass;    // [first entry, second entry], for the mean
    std::vector<kernels::EntryRun> runs;
    std::vector<Listed> by_first, by_second;
    std::vector<int32_t> first_begin, second_begin;  // where each entry's columns begin in these
    std::vector<float> column_mass;
  };

  size_t Cell(int64_t first, int64_t second) const { return static_cast<size_t>(first * (num_second_ + 1) + second); }
  void VisitRows(const HeadTensors& head, const std::vector<uint8_t>& judged, const kernels::BudgetEntries& entries,
                 const ProbabilityRows& rows, Part* part) const;
  void LoadRuns(const HeadTensors& head, const kernels::BudgetEntries& entries, int64_t row_begin, int64_t row_end,
                Part* part) const;
  void CountPairs(const HeadTensors& head, int64_t row_begin, int64_t row_end, Part* part) const;
  void AddMass(const ProbabilityRows& rows, const std::vector<uint8_t>& judged, int64_t row_begin, int64_t row_end,
               Part* part) const;
  void ListRuns(Part* part) const;
  void FindLeastSeconds(const float* p, Part* part) const;
  void FindLeastSecondsOfRows();

  const int64_t num_first_, num_second_;
  const MassStatistic statistic_;
  const double least_mass_;
  int64_t num_rows_ = 0;  // that are judged
  std::vector<Part> parts_;
  std::vector<int64_t> dropped_;      // [first, second]: pairs
  std::vector<double> dropped_mass_;  // [first, second], of the mean
  double total_mass_ = 0;
  int64_t num_pairs_ = 0;
  std::vector<int64_t> least_second_;
};

}  // namespace headscope::analysis
