// SPDX-License-Identifier: Apache-2.0
#include "search/setting_front.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

namespace headscope::analysis {
namespace {

using kernels::ColumnRange;
using kernels::EntryRun;

bool IsJudged(const std::vector<uint8_t>& judged, int64_t row) {
  return judged.empty() || judged[static_cast<size_t>(row)] != 0;
}

// In fp32 for a few terms at a time, so that it vectorises.
double SumOf(const float* values, int64_t count) {
  constexpr int64_t kLanes = 8;
  constexpr int64_t kSettle = 64;
  double sum = 0;
  int64_t i = 0;
  while (i + kLanes <= count) {
    std::array<float, kLanes> lanes{};
    const int64_t end = std::min(i + kSettle, count);
    for (; i + kLanes <= end; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[static_cast<size_t>(lane)] += values[i + lane];
    }
    for (const float lane : lanes) sum += static_cast<double>(lane);
  }
  for (; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

// The mass of those whose other entry is above `place`.
template <typename Listed>
double SumAbove(std::span<const Listed> listed, int64_t place, const float* p) {
  double sum = 0;
  for (const Listed& columns : listed) {
    if (columns.length == 1) {
      // Single columns come in no order: choosing the number is cheaper than guessing the branch.
      const auto value = static_cast<double>(p[columns.begin]);
      sum += columns.other > place ? value : 0.0;
    } else if (columns.other > place) {
      sum += SumOf(p + columns.begin, columns.length);
    }
  }
  return sum;
}

// In place, table[x][y] becomes the sum of what was at all [x'][y'] with x' > x and y' > y.
template <typename Value>
void SumBeyond(int64_t num_first, int64_t num_second, std::vector<Value>* table) {
  const int64_t width = num_second + 1;
  const auto at = [&](int64_t x, int64_t y) -> Value& { return (*table)[static_cast<size_t>(x * width + y)]; };
  for (int64_t x = num_first; x >= 0; --x) {
    Value row = 0;
    for (int64_t y = num_second; y >= 0; --y) {
      row += at(x, y);
      at(x, y) = row + (x < num_first ? at(x + 1, y) : Value{0});
    }
  }
  for (int64_t x = 0; x <= num_first; ++x) {
    for (int64_t y = 0; y <= num_second; ++y) at(x, y) = x < num_first && y < num_second ? at(x + 1, y + 1) : Value{0};
  }
}

}  // namespace

SettingFront::SettingFront(int64_t num_first, int64_t num_second, MassStatistic statistic, double least_mass)
    : num_first_(num_first), num_second_(num_second), statistic_(statistic), least_mass_(least_mass) {}

VisitProbabilities SettingFront::Add(const HeadTensors& head, const std::vector<uint8_t>& judged,
                                     const kernels::BudgetEntries& entries, int32_t num_workers,
                                     const std::function<void(double)>& progress) {
  num_rows_ += judged.empty() ? head.num_rows : std::ranges::count_if(judged, [](uint8_t one) { return one != 0; });
  if (parts_.size() < static_cast<size_t>(num_workers)) parts_.resize(static_cast<size_t>(num_workers));
  struct Done {
    std::atomic<int64_t> rows{0};
    int64_t told = 0;
  };
  const auto done = std::make_shared<Done>();
  return [this, &head, &judged, &entries, &progress, done](const ProbabilityRows& rows, int32_t worker) {
    VisitRows(head, judged, entries, rows, &parts_[static_cast<size_t>(worker)]);
    const int64_t seen = done->rows += rows.row_end - rows.row_begin;
    if (worker != 0 || !progress) return;
    // Late rows, which are the longest, come first; of n rows, those before row r have about (r / n)^2 of the pairs.
    const double left = 1 - static_cast<double>(seen) / static_cast<double>(head.num_rows);
    const double share = 1 - left * left;
    const auto percent = static_cast<int64_t>(100 * share);
    if (percent == done->told) return;
    done->told = percent;
    progress(share);
  };
}

void SettingFront::VisitRows(const HeadTensors& head, const std::vector<uint8_t>& judged,
                             const kernels::BudgetEntries& entries, const ProbabilityRows& rows, Part* part) const {
  const auto cells = static_cast<size_t>((num_first_ + 1) * (num_second_ + 1));
  const bool mean = statistic_ == MassStatistic::kMean;
  if (part->pairs.empty()) {
    part->pairs.assign(cells, 0);
    if (mean) {
      part->mass.assign(cells, 0);
    } else {
      part->rows.assign(cells, 0);
    }
  }
  for (int64_t row = rows.row_begin; row < rows.row_end;) {
    const int64_t next = std::min((row / entries.block_rows() + 1) * entries.block_rows(), rows.row_end);
    LoadRuns(head, entries, row, next, part);
    CountPairs(head, row, next, part);
    if (mean) {
      AddMass(rows, judged, row, next, part);
    } else {
      ListRuns(part);
      for (int64_t i = row; i < next; ++i) {
        if (IsJudged(judged, i)) FindLeastSeconds(rows.Row(i), part);
      }
    }
    row = next;
  }
}

// The runs of rows of one block, as far as these rows attend to them.
void SettingFront::LoadRuns(const HeadTensors& head, const kernels::BudgetEntries& entries, int64_t row_begin,
                            int64_t row_end, Part* part) const {
  part->runs.clear();
  entries.AppendRuns(static_cast<int32_t>(row_begin / entries.block_rows()), &part->runs);
  const int32_t begin = head.AttendedColumns(row_begin).begin;
  const int32_t end = head.AttendedColumns(row_end - 1).end;
  for (EntryRun& run : part->runs) {
    run.begin = std::max(run.begin, begin);
    run.end = std::min(run.end, end);
  }
  std::erase_if(part->runs, [](const EntryRun& run) { return run.begin >= run.end; });
}

void SettingFront::CountPairs(const HeadTensors& head, int64_t row_begin, int64_t row_end, Part* part) const {
  const int32_t all_begin = head.AttendedColumns(row_end - 1).begin;  // from here to there, for each of the rows
  const int32_t all_end = head.AttendedColumns(row_begin).end;
  for (const EntryRun& run : part->runs) {
    int64_t count = 0;
    if (run.begin >= all_begin && run.end <= all_end) {
      count = (row_end - row_begin) * (run.end - run.begin);
    } else {
      for (int64_t row = row_begin; row < row_end; ++row) {
        const ColumnRange attended = head.AttendedColumns(row);
        count += std::max(0, std::min(run.end, attended.end) - std::max(run.begin, attended.begin));
      }
    }
    part->pairs[Cell(run.first, run.second)] += count;
  }
}

void SettingFront::AddMass(const ProbabilityRows& rows, const std::vector<uint8_t>& judged, int64_t row_begin,
                           int64_t row_end, Part* part) const {
  const auto width = static_cast<size_t>(rows.column_end - rows.column_begin);
  part->column_mass.assign(width, 0.0f);
  for (int64_t row = row_begin; row < row_end; ++row) {
    if (!IsJudged(judged, row)) continue;
    const float* p = rows.Row(row) + rows.column_begin;
    for (size_t i = 0; i < width; ++i) part->column_mass[i] += p[i];
  }
  const float* const sums = part->column_mass.data() - rows.column_begin;
  for (const EntryRun& run : part->runs)
    part->mass[Cell(run.first, run.second)] += SumOf(sums + run.begin, run.end - run.begin);
}

// Sorts the runs by either entry.
void SettingFront::ListRuns(Part* part) const {
  part->first_begin.assign(static_cast<size_t>(num_first_) + 2, 0);
  part->second_begin.assign(static_cast<size_t>(num_second_) + 2, 0);
  for (const EntryRun& run : part->runs) {
    ++part->first_begin[static_cast<size_t>(run.first) + 1];
    ++part->second_begin[static_cast<size_t>(run.second) + 1];
  }
  const auto sum_up = [](std::vector<int32_t>* counts) {
    for (size_t i = 1; i < counts->size(); ++i) (*counts)[i] += (*counts)[i - 1];
  };
  sum_up(&part->first_begin);
  sum_up(&part->second_begin);
  part->by_first.resize(part->runs.size());
  part->by_second.resize(part->runs.size());
  // Each begin moves to its end, the next one's begin, and all of them back by one place.
  for (const EntryRun& run : part->runs) {
    const int32_t length = run.end - run.begin;
    part->by_first[static_cast<size_t>(part->first_begin[static_cast<size_t>(run.first)]++)] = {run.begin, length,
                                                                                                run.second};
    part->by_second[static_cast<size_t>(part->second_begin[static_cast<size_t>(run.second)]++)] = {run.begin, length,
                                                                                                   run.first};
  }
  const auto move_back = [](std::vector<int32_t>* begins) {
    std::move_backward(begins->begin(), begins->end() - 1, begins->end());
    begins->front() = 0;
  };
  move_back(&part->first_begin);
  move_back(&part->second_begin);
}

// One row: the least second budget that gives it enough, for every first one from the largest down.
void SettingFront::FindLeastSeconds(const float* p, Part* part) const {
  const auto sum_above = [p](const std::vector<Listed>& listed, const std::vector<int32_t>& begins, int64_t from,
                             int64_t to, int64_t place) {
    const auto begin = static_cast<size_t>(begins[static_cast<size_t>(from)]);
    const auto end = static_cast<size_t>(begins[static_cast<size_t>(to)]);
    return SumAbove(std::span<const Listed>(listed).subspan(begin, end - begin), place, p);
  };
  const auto of_first = [&](int64_t from, int64_t to, int64_t second) {
    return sum_above(part->by_first, part->first_begin, from, to, second);
  };
  constexpr int64_t kAnything = -1;
  int64_t second = 0;
  double kept = of_first(0, num_first_, kAnything) +
                (of_first(num_first_, num_first_ + 1, kAnything) - of_first(num_first_, num_first_ + 1, second));
  for (int64_t first = num_first_ - 1; first >= 0; --first) {
    if (first < num_first_ - 1) kept -= of_first(first + 1, first + 2, second);
    while (kept < least_mass_) {
      if (++second == num_second_) break;
      kept += sum_above(part->by_second, part->second_begin, second, second + 1, first);
    }
    if (second == num_second_) {
      for (; first >= 0; --first) ++part->rows[Cell(first, num_second_)];
      return;
    }
    ++part->rows[Cell(first, second)];
  }
}

void SettingFront::Finish() {
  const auto cells = static_cast<size_t>((num_first_ + 1) * (num_second_ + 1));
  const auto add_up = [&](auto Part::*table, auto* sum) {
    sum->assign(cells, 0);
    for (const Part& part : parts_) {
      for (size_t cell = 0; cell < (part.*table).size(); ++cell) (*sum)[cell] += (part.*table)[cell];
    }
  };
  add_up(&Part::pairs, &dropped_);
  num_pairs_ = 0;
  for (const int64_t count : dropped_) num_pairs_ += count;
  SumBeyond(num_first_, num_second_, &dropped_);
  if (statistic_ == MassStatistic::kMean) {
    add_up(&Part::mass, &dropped_mass_);
    total_mass_ = 0;
    for (const double value : dropped_mass_) total_mass_ += value;
    SumBeyond(num_first_, num_second_, &dropped_mass_);
    for (int64_t first = 0; first < num_first_; ++first) least_second_.push_back(LeastSecondOfMean(first, least_mass_));
  } else {
    FindLeastSecondsOfRows();
  }
  parts_.clear();
}

int64_t SettingFront::KeptPairs(int64_t first, int64_t second) const {
  return num_pairs_ - dropped_[Cell(first, second)];
}

void SettingFront::FindLeastSecondsOfRows() {
  // As MassDistribution has it: the fifth percentile is at place ceil(rows / 20) in ascending order.
  const int64_t may_miss = statistic_ == MassStatistic::kMinimum ? 0 : (num_rows_ + 19) / 20 - 1;
  for (int64_t first = 0; first < num_first_; ++first) {
    int64_t missing = 0;  // rows that `second` - 1 is not enough for
    int64_t second = num_second_;
    for (; second > 0; --second) {
      for (const Part& part : parts_) {
        if (!part.rows.empty()) missing += part.rows[Cell(first, second)];
      }
      if (missing > may_miss) break;
    }
    least_second_.push_back(second);
  }
}

double SettingFront::MeanMass(int64_t first, int64_t second) const {
  return (total_mass_ - dropped_mass_[Cell(first, second)]) / static_cast<double>(num_rows_);
}

int64_t SettingFront::LeastSecondOfMean(int64_t first, double least_mass) const {
  int64_t second = 0;
  while (second < num_second_ && MeanMass(first, second) < least_mass) ++second;
  return second;
}

}  // namespace headscope::analysis
