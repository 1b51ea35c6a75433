// SPDX-License-Identifier: Apache-2.0
#include "statistics/row_statistics.h"

#include <algorithm>
#include <vector>

#include "analysis/types/rounding.h"
#include "analysis/types/row_statistic.h"
#include "kernels/cpu_scores.h"
#include "kernels/parallel.h"

namespace headscope::analysis {

void FillRowStatistics(const HeadTensors& head, int64_t row, std::span<const float> p, double outside_mass,
                       size_t entry, RowTable* table) {
  const std::vector<const RowStatistic*>& statistics = RowStatistics();
  RowView view;
  view.position = head.row_positions[static_cast<size_t>(row)];
  view.q = {head.q.data() + row * head.head_dim, static_cast<size_t>(head.head_dim)};
  view.first_key = head.AttendedColumns(row).begin;
  view.p = p;
  view.outside_mass = outside_mass;
  view.learned_sink_mass = RoundedShare(head.SinkMass(row));
  for (size_t i = 0; i < statistics.size(); ++i)
    table->row_statistics[entry * statistics.size() + i] = statistics[i]->OfRow(view);
}

bool FillRowStatisticsOfHead(const HeadTensors& head, const StatisticsOptions& options,
                             std::span<const RowBlock> blocks, RowTable* table) {
  const std::vector<const RowStatistic*>& statistics = RowStatistics();
  const bool wants_scores = std::any_of(statistics.begin(), statistics.end(),
                                        [](const RowStatistic* statistic) { return statistic->reads_probabilities(); });
  std::vector<int64_t> rows;
  for (const RowBlock& block : blocks) rows.insert(rows.end(), block.rows.begin(), block.rows.end());
  const auto count = static_cast<int64_t>(rows.size());
  if (!wants_scores) {
    return kernels::ParallelFor(count, options.num_threads, options.stop, [&](int64_t entry, int32_t) {
      const auto at = static_cast<size_t>(entry);
      FillRowStatistics(head, rows[at], {}, table->rows[at].outside_mass, at, table);
    });
  }
  const kernels::PackedKeys keys(head.k.data(), kernels::DType::kFloat32, head.head_dim,
                                 static_cast<int32_t>(head.num_tokens), head.head_dim);
  std::vector<std::vector<float>> scores(static_cast<size_t>(kernels::NumWorkers(options.num_threads, count)));
  return kernels::ParallelFor(count, options.num_threads, options.stop, [&](int64_t step, int32_t worker) {
    const auto at = static_cast<size_t>(count - 1 - step);  // the last rows are the longest: first
    const int64_t row = rows[at];
    const kernels::ColumnRange attended = head.AttendedColumns(row);
    std::vector<float>& p = scores[static_cast<size_t>(worker)];
    p.resize(static_cast<size_t>(attended.end - attended.begin));
    kernels::ScoreBlock(head.q.data() + row * head.head_dim, head.head_dim, 1, keys,
                        static_cast<int32_t>(attended.begin), static_cast<int32_t>(attended.end), head.scale,
                        head.soft_cap, p.data(), attended.end - attended.begin);
    kernels::ExpInPlace(p.data(), attended.end - attended.begin, head.lse[static_cast<size_t>(row)]);
    FillRowStatistics(head, row, p, table->rows[at].outside_mass, at, table);
  });
}

}  // namespace headscope::analysis
