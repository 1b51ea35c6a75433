// SPDX-License-Identifier: Apache-2.0
#include "analysis/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>

#include "analysis/types/head_statistic.h"
#include "analysis/types/rounding.h"
#include "analysis/types/row_statistic.h"
#include "base/errors.h"
#include "base/stop.h"
#include "head/head_checks.h"
#include "kernels/parallel.h"
#include "statistics/logits_by_distance.h"
#include "statistics/row_block_pass.h"
#include "statistics/row_statistics.h"
#include "statistics/statistics_on_gpu.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

// Share of the rows that retrieval_peak looks at: those with the largest retrieval mass.
constexpr double kPeakShare = 0.02;

template <typename Value>
double MeanOverRows(const RowTable& table, Value&& value) {
  double sum = 0;
  for (const RowNumbers& row : table.rows) sum += value(row);
  return sum / static_cast<double>(table.rows.size());
}

double SumOfLargest(std::vector<double> values, int64_t count) {
  const auto best = std::min<std::ptrdiff_t>(count, static_cast<std::ptrdiff_t>(values.size()));
  std::partial_sort(values.begin(), values.begin() + best, values.end(), std::greater<>());
  return std::accumulate(values.begin(), values.begin() + best, 0.0);
}

// Mean of the entries that are not NaN; 1 when there are none (nothing could disagree).
double MeanOfDefined(const std::vector<double>& values, size_t first, size_t stride, double when_empty) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = first; i < values.size(); i += stride) {
    if (std::isnan(values[i])) continue;
    sum += values[i];
    ++count;
  }
  return count == 0 ? when_empty : sum / static_cast<double>(count);
}

// Largest of the entries that are not NaN.
double MaximumOfDefined(const std::vector<double>& values, size_t first, size_t stride, double when_empty) {
  double largest = std::numeric_limits<double>::quiet_NaN();
  for (size_t i = first; i < values.size(); i += stride) largest = std::fmax(largest, values[i]);
  return std::isnan(largest) ? when_empty : largest;
}

// Throws CancelledError.
std::vector<HeadNumber> NumbersOf(const HeadTensors& head, const StatisticsOptions& options) {
  const HeadView view{head.num_rows, head.num_tokens, head.head_dim, head.ValueDim(),
                      head.q,        head.q_pre_rope, head.k,        head.v};
  const std::vector<const HeadStatistic*>& all = WholeHeadStatistics();
  std::vector<double> values(all.size());
  const bool finished = kernels::ParallelFor(
      static_cast<int64_t>(all.size()), options.num_threads, options.stop,
      [&](int64_t i, int32_t) { values[static_cast<size_t>(i)] = all[static_cast<size_t>(i)]->OfHead(view); });
  StopUnless(finished);
  std::vector<HeadNumber> numbers;
  for (size_t i = 0; i < all.size(); ++i) numbers.push_back({all[i]->info().name, values[i]});
  return numbers;
}

// Sums over rows -> mean mass per bin; bins cut the positions or distances evenly.
std::vector<float> Profile(const std::vector<double>& sums, int32_t bins, int64_t num_rows) {
  const auto length = static_cast<int64_t>(sums.size());
  const int64_t count = std::min<int64_t>(bins, length);
  std::vector<double> profile(static_cast<size_t>(count));
  for (int64_t i = 0; i < length; ++i) profile[static_cast<size_t>(i * count / length)] += sums[static_cast<size_t>(i)];
  std::vector<float> means;
  means.reserve(profile.size());
  for (const double sum : profile) means.push_back(static_cast<float>(sum / static_cast<double>(num_rows)));
  return means;
}

void FillRowMeans(const RowTable& table, const StatisticsOptions& options, HeadStatistics* statistics) {
  std::vector<double> retrieval;
  int64_t columns = 0;
  for (const RowNumbers& row : table.rows) {
    retrieval.push_back(row.retrieval_mass);
    columns += row.num_columns;
  }
  const std::vector<const RowStatistic*>& by_row = RowStatistics();
  for (size_t i = 0; i < by_row.size(); ++i) {
    const auto over_rows = by_row[i]->over_rows() == RowStatistic::Over::kMean ? MeanOfDefined : MaximumOfDefined;
    statistics->row_means.push_back(
        {by_row[i]->info().name, over_rows(table.row_statistics, i, by_row.size(), by_row[i]->without_rows())});
  }
  statistics->entropy = MeanOverRows(table, [](const RowNumbers& row) { return row.entropy; });
  statistics->max_probability = MeanOverRows(table, [](const RowNumbers& row) { return row.max_probability; });
  statistics->sink_mass = MeanOverRows(table, [](const RowNumbers& row) { return row.sink_mass; });
  statistics->local_mass = MeanOverRows(table, [](const RowNumbers& row) { return row.local_mass; });
  statistics->retrieval_mass = MeanOverRows(table, [](const RowNumbers& row) { return row.retrieval_mass; });
  statistics->outside_mass = MeanOverRows(table, [](const RowNumbers& row) { return row.outside_mass; });
  const auto peak_rows = static_cast<int64_t>(std::ceil(kPeakShare * static_cast<double>(table.rows.size())));
  statistics->retrieval_peak = SumOfLargest(std::move(retrieval), peak_rows) / static_cast<double>(peak_rows);

  const std::vector<int32_t> counts = TopKCounts();
  for (size_t i = 0; i < counts.size(); ++i) {
    statistics->top_k_mass.push_back({counts[i], MeanOfDefined(table.top_mass, i, counts.size(), 0.0)});
  }
  size_t pair = 0;
  const size_t pairs = options.agreement_r.size() * options.agreement_k.size();
  for (const int32_t r : options.agreement_r) {
    for (const int32_t k : options.agreement_k)
      statistics->agreement.push_back({r, k, MeanOfDefined(table.agreement, pair++, pairs, 1.0)});
  }
  for (size_t i = 0; i < options.cra_targets.size(); ++i) {
    int64_t needed = 0;
    for (size_t entry = i; entry < table.needed.size(); entry += options.cra_targets.size())
      needed += table.needed[entry];
    statistics->sparsity.push_back(
        {options.cra_targets[i], 1.0 - static_cast<double>(needed) / static_cast<double>(columns)});
  }
}

void FillLineMasses(const LineTotals& sums, const StatisticsOptions& options, HeadStatistics* statistics) {
  const auto rows = static_cast<double>(statistics->num_rows);
  statistics->vertical_mass = RoundedShare(SumOfLargest(sums.far_columns, options.best_lines) / rows);
  statistics->slash_mass = RoundedShare(SumOfLargest(sums.far_diagonals, options.best_lines) / rows);
  statistics->column_profile = Profile(sums.columns, options.profile_bins, statistics->num_rows);
  statistics->diagonal_profile = Profile(sums.diagonals, options.profile_bins, statistics->num_rows);
}

// Throws CancelledError.
void RunRowsOnCpu(const HeadTensors& head, const StatisticsOptions& options, const std::vector<RowBlock>& blocks,
                  const std::vector<size_t>& first_entry, const kernels::PackedKeys& keys, RowTable* table,
                  LineTotals* lines, LogitsByDistance* logits) {
  std::fill(table->rows.begin(), table->rows.end(), RowNumbers{});
  const auto count = static_cast<int64_t>(blocks.size());
  std::vector<std::unique_ptr<RowBlockPass>> workers(
      static_cast<size_t>(kernels::NumWorkers(options.num_threads, count)));
  for (auto& worker : workers) worker = std::make_unique<RowBlockPass>(head, keys, options);
  const bool finished =
      kernels::ParallelFor(count, options.num_threads, options.stop, [&](int64_t step, int32_t worker) {
        const auto block = static_cast<size_t>(count - 1 - step);  // the last blocks have the longest rows: first
        workers[static_cast<size_t>(worker)]->Run(blocks[block], block, first_entry[block], table);
      });
  StopUnless(finished);
  LineSums sums = workers.front()->line_sums();
  for (size_t worker = 1; worker < workers.size(); ++worker) sums.Merge(workers[worker]->line_sums());
  *lines = sums.Totals();
  for (const auto& worker : workers) logits->Merge(worker->logits());
}

// What needs none of the rows' numbers.
struct WithoutRows {
  kernels::PackedKeys keys;
  std::vector<HeadNumber> numbers;
};

// Made while the GPU computes; without a GPU, or a thread for it, when it is asked for. `head` must live until then.
std::future<WithoutRows> StartWithoutRows(const HeadTensors& head, StatisticsOptions options) {
  const bool beside_gpu = head.gpu != nullptr;
  if (beside_gpu && options.num_threads > 1) --options.num_threads;  // the caller waits for the GPU
  const auto make = [&head, options = std::move(options)] {
    return WithoutRows{kernels::PackedKeys(head.k.data(), kernels::DType::kFloat32, head.head_dim,
                                           static_cast<int32_t>(head.num_tokens), head.head_dim),
                       NumbersOf(head, options)};
  };
  try {
    if (beside_gpu) return std::async(std::launch::async, make);
  } catch (const std::system_error&) {
    // No more threads.
  }
  return std::async(std::launch::deferred, make);
}

}  // namespace

HeadStatistics ComputeStatistics(const HeadTensors& head, const StatisticsOptions& given, ClassEvidence* evidence) {
  StatisticsOptions options = given;
  // The class asks for its own target, whatever the caller's are.
  std::vector<double>& targets = options.cra_targets;
  const bool class_target_given = std::find(targets.begin(), targets.end(), kClassTarget) != targets.end();
  if (!class_target_given) targets.push_back(kClassTarget);
  // The row pass walks both in order.
  std::sort(targets.begin(), targets.end());
  std::sort(options.agreement_k.begin(), options.agreement_k.end());
  HeadStatistics statistics;
  statistics.id = head.id;
  statistics.kv_head = head.kv_head;
  statistics.num_tokens = head.num_tokens;
  const std::vector<RowBlock> blocks = ChooseRows(head, options.block_size, options.max_rows);
  if (blocks.empty()) {
    throw BadInputError({.field = "head",
                         .value = HeadName(head.id),
                         .problem = "it has no recorded query rows",
                         .remedy = "capture again and record some"});
  }

  std::vector<size_t> first_entry;
  size_t num_rows = 0;
  for (const RowBlock& block : blocks) {
    first_entry.push_back(num_rows);
    num_rows += block.rows.size();
  }
  RowTable table;
  table.rows.resize(num_rows);
  table.row_statistics.resize(num_rows * RowStatistics().size());
  table.sampled = SampledRows(static_cast<int64_t>(num_rows));
  table.top_mass.resize(num_rows * TopKCounts().size());
  table.needed.resize(num_rows * options.cra_targets.size());
  table.agreement.assign(num_rows * options.agreement_r.size() * options.agreement_k.size(),
                         std::numeric_limits<double>::quiet_NaN());
  table.block_mass.resize(blocks.size());
  table.block_chance.resize(blocks.size());

  std::future<WithoutRows> without_rows = StartWithoutRows(head, options);
  LineTotals lines;
  LogitsByDistance logits(head.num_tokens);
  Status on_gpu(StatusCode::kUnsupported, head.gpu_refusal);
  if (head.gpu != nullptr) on_gpu = RunRowsOnGpu(head, options, blocks, &table, &lines);
  if (on_gpu.code() == StatusCode::kCancelled) ThrowStopped();
  const WithoutRows done = without_rows.get();
  if (on_gpu.ok()) FillRowStatisticsOfHead(head, options, blocks, done.keys, &table, &logits);
  statistics.device = on_gpu.ok() ? head.gpu_device : NamedCpu();
  statistics.note = on_gpu.ok() ? CpuStatisticsNote(RowStatistics()) : on_gpu.message();
  // What the GPU does not take, or has no memory for, is computed here.
  if (!on_gpu.ok()) RunRowsOnCpu(head, options, blocks, first_entry, done.keys, &table, &lines, &logits);

  statistics.num_rows = static_cast<int64_t>(num_rows);
  FillRowMeans(table, options, &statistics);
  FillLineMasses(lines, options, &statistics);
  logits.Fill(options.profile_bins, options.local_tokens, &statistics);
  statistics.numbers = done.numbers;
  const auto mean_of = [num_rows](const std::vector<double>& sums_over_rows) {
    return std::accumulate(sums_over_rows.begin(), sums_over_rows.end(), 0.0) / static_cast<double>(num_rows);
  };
  statistics.block_mass = RoundedShare(mean_of(table.block_mass));
  const ClassEvidence of_head = {mean_of(lines.far_columns), mean_of(table.block_chance),
                                 static_cast<double>(options.best_lines) / static_cast<double>(num_rows),
                                 MeanOverRows(table, [](const RowNumbers& row) { return row.learned_sink_mass; })};
  Classify(of_head, options.classes, &statistics);
  if (evidence != nullptr) *evidence = of_head;
  if (!class_target_given) {
    std::erase_if(statistics.sparsity, [](const SparsityAtCra& entry) { return entry.target == kClassTarget; });
  }
  return statistics;
}

}  // namespace headscope::analysis
