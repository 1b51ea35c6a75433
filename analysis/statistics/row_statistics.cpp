// SPDX-License-Identifier: Apache-2.0
#include "statistics/row_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "analysis/tiles.h"
#include "analysis/types/rounding.h"
#include "analysis/types/row_statistic.h"
#include "base/stop.h"
#include "kernels/cpu_scores.h"
#include "kernels/parallel.h"

namespace headscope::analysis {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class KeysOfRow : public KeyProbabilities {
 public:
  KeysOfRow(const HeadTensors& head, int64_t row, const RowExtent& extent, std::span<const float> p)
      : head_(head), row_(row), extent_(extent), p_(p) {}

  double At(int64_t position) const override {
    if (position < extent_.begin || position >= extent_.end) return 0;
    if (!p_.empty()) return static_cast<double>(p_[static_cast<size_t>(position - extent_.begin)]);
    return std::exp(Score(head_, row_, position) - static_cast<double>(head_.lse[static_cast<size_t>(row_)]));
  }

 private:
  const HeadTensors& head_;
  const int64_t row_;
  const RowExtent& extent_;
  const std::span<const float> p_;
};

std::span<const float> RowOf(const std::vector<float>& queries, int64_t row, int32_t head_dim) {
  if (queries.empty()) return {};
  return {queries.data() + row * head_dim, static_cast<size_t>(head_dim)};
}

}  // namespace

std::vector<uint8_t> SampledRows(int64_t num_rows) {
  const int64_t chosen = std::min(num_rows, kSampledRows);
  std::vector<uint8_t> sampled(static_cast<size_t>(num_rows));
  for (int64_t i = 0; i < chosen; ++i) sampled[static_cast<size_t>((i + 1) * num_rows / chosen - 1)] = 1;
  return sampled;
}

void FillRowStatistics(const HeadTensors& head, int64_t row, const RowExtent& extent, std::span<const float> p,
                       size_t entry, RowTable* table) {
  const std::vector<const RowStatistic*>& statistics = RowStatistics();
  const RowNumbers& numbers = table->rows[entry];
  const KeysOfRow keys(head, row, extent, p);
  RowView view;
  view.position = extent.position;
  view.q = RowOf(head.q, row, head.head_dim);
  view.q_pre_rope = RowOf(head.q_pre_rope, row, head.head_dim);
  view.first_key = extent.begin;
  view.p = p;
  if (!p.empty())
    view.far_p = p.subspan(static_cast<size_t>(extent.far_begin - extent.begin),
                           static_cast<size_t>(extent.far_end - extent.far_begin));
  view.outside_mass = numbers.outside_mass;
  view.learned_sink_mass = numbers.learned_sink_mass;
  view.lse = static_cast<double>(head.lse[static_cast<size_t>(row)]);
  view.entropy = numbers.entropy;
  view.max_probability = numbers.max_probability;
  if (head.previous_same) view.previous_same = *head.previous_same;
  view.keys = &keys;
  for (size_t i = 0; i < statistics.size(); ++i) {
    const bool looks = table->sampled[entry] != 0 || !statistics[i]->samples_rows();
    table->row_statistics[entry * statistics.size() + i] = looks ? statistics[i]->OfRow(view) : kNone;
  }
}

std::string CpuStatisticsNote(const std::vector<const RowStatistic*>& statistics) {
  std::string names;
  size_t count = 0;
  for (const RowStatistic* statistic : statistics) {
    if (!statistic->reads_probabilities()) continue;
    names += (count++ == 0 ? "" : ", ") + statistic->info().name;
  }
  if (count == 0) return "";
  return names + (count == 1 ? " has" : " have") + " no GPU version and " + (count == 1 ? "was" : "were") +
         " computed on the CPU";
}

namespace {

constexpr int64_t kRowsAtOnce = 8;       // whose scores are made together
constexpr int64_t kCachedColumns = 512;  // whose scores stay in a core's cache
constexpr int64_t kRowsOfPiece = 512;    // without scores: a worker's share

// A worker's.
struct ScoreRoom {
  explicit ScoreRoom(int64_t num_tokens) : logits(num_tokens) {}
  std::vector<float> queries, scores;
  LogitsByDistance logits;
};

// entries: of a few rows of the table, the numbers of which are rows[entry].
void FillWithScores(const HeadTensors& head, const StatisticsOptions& options, const kernels::PackedKeys& keys,
                    const std::vector<int64_t>& rows, std::span<const int64_t> entries, ScoreRoom* room,
                    RowTable* table) {
  std::vector<RowExtent> extents;
  room->queries.clear();
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for (const int64_t entry : entries) {
    const int64_t row = rows[static_cast<size_t>(entry)];
    extents.push_back(ExtentOf(head, options, row));
    begin = std::min<int64_t>(begin, extents.back().begin);
    end = std::max<int64_t>(end, extents.back().end);
    const std::span<const float> query = RowOf(head.q, row, head.head_dim);
    room->queries.insert(room->queries.end(), query.begin(), query.end());
  }
  const int64_t width = std::max<int64_t>(end - begin, 0);
  room->scores.resize(entries.size() * static_cast<size_t>(width));
  for (int64_t from = begin; from < end; from += kCachedColumns) {
    kernels::ScoreBlock(room->queries.data(), head.head_dim, static_cast<int32_t>(entries.size()), keys,
                        static_cast<int32_t>(from), static_cast<int32_t>(std::min(from + kCachedColumns, end)),
                        head.scale, head.soft_cap, room->scores.data() + (from - begin), width);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const int64_t row = rows[static_cast<size_t>(entries[i])];
    const RowExtent& extent = extents[i];
    const int64_t count = extent.end - extent.begin;
    float* const p = room->scores.data() + static_cast<int64_t>(i) * width + (extent.begin - begin);
    if (table->sampled[static_cast<size_t>(entries[i])] != 0)
      room->logits.AddRow(p, extent.position, extent.begin, extent.end);
    kernels::ExpInPlace(p, count, head.lse[static_cast<size_t>(row)]);
    FillRowStatistics(head, row, extent, {p, static_cast<size_t>(count)}, static_cast<size_t>(entries[i]), table);
  }
}

}  // namespace

void FillRowStatisticsOfHead(const HeadTensors& head, const StatisticsOptions& options,
                             std::span<const RowBlock> blocks, const kernels::PackedKeys& keys, RowTable* table,
                             LogitsByDistance* logits) {
  const bool of_every_row = std::any_of(
      RowStatistics().begin(), RowStatistics().end(),
      [](const RowStatistic* statistic) { return statistic->reads_probabilities() && !statistic->samples_rows(); });
  std::vector<int64_t> rows;
  for (const RowBlock& block : blocks) rows.insert(rows.end(), block.rows.begin(), block.rows.end());
  const auto count = static_cast<int64_t>(rows.size());
  // Rows whose probabilities are read go a few at a time, which reads the keys once for all of them; the last rows are
  // the longest: first.
  std::vector<int64_t> with_scores, without;
  for (int64_t at = count - 1; at >= 0; --at) {
    const bool read = of_every_row || table->sampled[static_cast<size_t>(at)] != 0;
    (read ? with_scores : without).push_back(at);
  }
  const auto num_batches = static_cast<int64_t>(with_scores.size() + kRowsAtOnce - 1) / kRowsAtOnce;
  const auto num_pieces = static_cast<int64_t>(without.size() + kRowsOfPiece - 1) / kRowsOfPiece;
  std::vector<ScoreRoom> rooms(static_cast<size_t>(kernels::NumWorkers(options.num_threads, num_batches + num_pieces)),
                               ScoreRoom(head.num_tokens));
  const bool finished = kernels::ParallelFor(
      num_batches + num_pieces, options.num_threads, options.stop, [&](int64_t step, int32_t worker) {
        if (step < num_batches) {
          const auto first = static_cast<size_t>(step * kRowsAtOnce);
          const std::span<const int64_t> batch(with_scores.data() + first,
                                               std::min<size_t>(kRowsAtOnce, with_scores.size() - first));
          return FillWithScores(head, options, keys, rows, batch, &rooms[static_cast<size_t>(worker)], table);
        }
        const auto first = static_cast<size_t>((step - num_batches) * kRowsOfPiece);
        for (size_t i = first; i < std::min<size_t>(first + kRowsOfPiece, without.size()); ++i) {
          const int64_t row = rows[static_cast<size_t>(without[i])];
          FillRowStatistics(head, row, ExtentOf(head, options, row), {}, static_cast<size_t>(without[i]), table);
        }
      });
  StopUnless(finished);
  for (const ScoreRoom& room : rooms) logits->Merge(room.logits);
}

}  // namespace headscope::analysis
