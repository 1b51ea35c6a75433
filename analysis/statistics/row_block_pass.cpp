// SPDX-License-Identifier: Apache-2.0
#include "statistics/row_block_pass.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "analysis/types/rounding.h"
#include "statistics/row_statistics.h"

namespace headscope::analysis {
namespace {

// Rows of one ScoreBlock call: enough to make it fast, few enough for their scores to stay in the cache between product
// and sums.
constexpr int64_t kBatchRows = 16;
constexpr int32_t kColumnsAtOnce = 512;  // of a ScoreBlock call, as it says

// Sum of p * (lse - score), the entropy of the row; sixteen partial sums in fp32 so that it vectorises, settled every
// 1024 terms.
double Entropy(const float* p, const float* scores, int64_t num_values, float lse) {
  constexpr int64_t kLanes = 16;
  constexpr int64_t kSettle = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < num_values; begin += kSettle) {
    const int64_t end = std::min(begin + kSettle, num_values);
    std::array<float, kLanes> lanes{};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane)
        lanes[static_cast<size_t>(lane)] += p[i + lane] * (lse - scores[i + lane]);
    }
    for (; i < end; ++i) lanes[0] += p[i] * (lse - scores[i]);
    for (const float lane : lanes) total += static_cast<double>(lane);
  }
  return total;
}

// Zeroes all but the r components of largest magnitude (equal ones: the lower index).
void KeepLargest(float* q, int32_t head_dim, int32_t r) {
  if (r >= head_dim) return;
  // By magnitude, then by index, in one number: the bits of a float without a sign order as it does.
  std::vector<uint64_t> components;
  components.reserve(static_cast<size_t>(head_dim));
  for (int32_t i = 0; i < head_dim; ++i)
    components.push_back(uint64_t{std::bit_cast<uint32_t>(std::fabs(q[i]))} << 32 | ~static_cast<uint32_t>(i));
  const auto first_dropped = components.begin() + std::max(r, 0);
  std::nth_element(components.begin(), first_dropped, components.end(), std::greater<>());
  for (auto dropped = first_dropped; dropped != components.end(); ++dropped) q[~static_cast<uint32_t>(*dropped)] = 0;
}

}  // namespace

std::vector<int32_t> TopKCounts() {
  std::vector<int32_t> counts;
  for (int32_t k = 1; k <= kLargestTopK; k *= 2) counts.push_back(k);
  return counts;
}

std::vector<RowBlock> ChooseRows(const HeadTensors& head, int32_t block_size, int64_t max_rows) {
  const int64_t chosen = max_rows > 0 ? std::min(max_rows, head.num_rows) : head.num_rows;
  std::vector<RowBlock> blocks;
  int64_t last_block = -1;
  for (int64_t i = 0; i < chosen; ++i) {
    const int64_t row = (i + 1) * head.num_rows / chosen - 1;  // the last of each of `chosen` even parts
    const int64_t block = head.row_positions[static_cast<size_t>(row)] / block_size;
    if (block != last_block) blocks.emplace_back();
    last_block = block;
    blocks.back().rows.push_back(row);
  }
  return blocks;
}

int64_t SinkColumns(const HeadTensors& head, const StatisticsOptions& options) {
  return std::max<int64_t>(0, options.sink_tokens - head.first_token);
}

void SumBestBlocks(const HeadTensors& head, const StatisticsOptions& options, int64_t last_row,
                   std::vector<double> key_block_mass, double* mass, double* chance) {
  const double far_mass = std::accumulate(key_block_mass.begin(), key_block_mass.end(), 0.0);
  const RowExtent last = ExtentOf(head, options, last_row);
  const int64_t far_blocks = last.far_begin < last.far_end
                                 ? (last.far_end - 1) / options.block_size - last.far_begin / options.block_size + 1
                                 : 1;
  *chance = far_mass * std::min(1.0, static_cast<double>(options.best_lines) / static_cast<double>(far_blocks));
  const auto best = std::min<std::ptrdiff_t>(options.best_lines, static_cast<std::ptrdiff_t>(key_block_mass.size()));
  std::partial_sort(key_block_mass.begin(), key_block_mass.begin() + best, key_block_mass.end(), std::greater<>());
  *mass = std::accumulate(key_block_mass.begin(), key_block_mass.begin() + best, 0.0);
}

RowBlockPass::RowBlockPass(const HeadTensors& head, const kernels::PackedKeys& keys, const StatisticsOptions& options)
    : head_(head),
      keys_(keys),
      options_(options),
      sink_columns_(SinkColumns(head, options)),
      line_sums_(head.num_tokens),
      logits_(head.num_tokens),
      ranked_mass_(TopKCounts(), options.cra_targets) {}

RowExtent ExtentOf(const HeadTensors& head, const StatisticsOptions& options, int64_t row) {
  RowExtent extent;
  extent.position = head.row_positions[static_cast<size_t>(row)];
  const kernels::ColumnRange attended = head.AttendedColumns(row);
  extent.complete = head.SeesAllItsKeys(row);
  extent.begin = attended.begin;
  extent.end = attended.end;
  extent.far_begin = std::clamp<int64_t>(SinkColumns(head, options), extent.begin, extent.end);
  extent.far_end = std::clamp<int64_t>(extent.position - options.local_tokens + 1, extent.far_begin, extent.end);
  return extent;
}

double SinkEntropy(const HeadTensors& head, int64_t row) {
  if (!head.sink) return 0;
  const double log_share = static_cast<double>(*head.sink) - static_cast<double>(head.lse[static_cast<size_t>(row)]);
  return -std::exp(log_share) * log_share;
}

void RowBlockPass::Run(const RowBlock& block, size_t block_index, size_t first_entry, RowTable* table) {
  const auto count = static_cast<int64_t>(block.rows.size());
  key_block_mass_.assign(static_cast<size_t>(head_.num_tokens / options_.block_size + 1), 0.0);
  for (int64_t begin = 0; begin < count; begin += kBatchRows) {
    RunRows(block.rows.data() + begin, std::min(kBatchRows, count - begin), first_entry + static_cast<size_t>(begin),
            table);
  }
  line_sums_.SettleBlock();
  SumBestBlocks(head_, options_, block.rows.back(), key_block_mass_, &table->block_mass[block_index],
                &table->block_chance[block_index]);
}

void RowBlockPass::RunRows(const int64_t* rows, int64_t count, size_t first_entry, RowTable* table) {
  const int64_t head_dim = head_.head_dim;
  q_.resize(static_cast<size_t>(kBatchRows * head_dim));
  for (int64_t i = 0; i < count; ++i)
    std::copy_n(head_.q.data() + rows[i] * head_dim, head_dim, q_.data() + i * head_dim);
  // Rows ascend, so the first begins first and the last ends last.
  const int64_t begin = head_.AttendedColumns(rows[0]).begin;
  const int64_t end = head_.AttendedColumns(rows[count - 1]).end;
  const int64_t width = end - begin;
  scores_.resize(static_cast<size_t>(kBatchRows * width));
  p_.resize(static_cast<size_t>(width));
  for (int64_t from = begin; from < end; from += kColumnsAtOnce) {
    kernels::ScoreBlock(q_.data(), head_dim, static_cast<int32_t>(count), keys_, static_cast<int32_t>(from),
                        static_cast<int32_t>(std::min(from + kColumnsAtOnce, end)), head_.scale, head_.soft_cap,
                        scores_.data() + (from - begin), width);
  }
  for (int64_t i = 0; i < count; ++i) {
    AnalyseRow(rows[i], scores_.data() + i * width, begin, first_entry + static_cast<size_t>(i), table);
  }
  for (int64_t i = 0; i < count; ++i) {
    const size_t entry = first_entry + static_cast<size_t>(i);
    if (table->sampled[entry] == 0) continue;
    const kernels::ColumnRange attended = head_.AttendedColumns(rows[i]);
    const float* const scores = scores_.data() + i * width + (attended.begin - begin);
    logits_.AddRow(scores, head_.row_positions[static_cast<size_t>(rows[i])], attended.begin, attended.end);
    MeasureAgreement(rows[i], scores, attended, entry, table);
  }
}

// p_ holds scores and becomes probabilities, piece by piece, so that each piece's sum comes for free.
void RowBlockPass::Exponentiate(const RowExtent& extent, float lse, RowNumbers* numbers) {
  const auto sum_piece = [&](int64_t begin, int64_t end) {
    return static_cast<double>(kernels::ExpInPlace(p_.data() + (begin - extent.begin), end - begin, lse));
  };
  // Near the start and near the diagonal, cut also where sinks and window meet, so that both sums are whole when they
  // overlap.
  const int64_t sinks_end = std::clamp<int64_t>(sink_columns_, extent.begin, extent.end);
  const int64_t local_begin =
      std::clamp<int64_t>(extent.position - options_.local_tokens + 1, extent.begin, extent.end);
  double mass = 0;
  const std::array<int64_t, 4> cuts = {extent.begin, std::min(sinks_end, local_begin), std::max(sinks_end, local_begin),
                                       extent.end};
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const bool far = cuts[i] == extent.far_begin && cuts[i + 1] == extent.far_end && extent.far_begin < extent.far_end;
    double sum = 0;
    for (int64_t from = cuts[i]; from < cuts[i + 1];) {
      const int64_t to =
          far ? std::min<int64_t>((from / options_.block_size + 1) * options_.block_size, cuts[i + 1]) : cuts[i + 1];
      const double piece = sum_piece(from, to);
      if (far) key_block_mass_[static_cast<size_t>(from / options_.block_size)] += piece;
      sum += piece;
      from = to;
    }
    if (cuts[i + 1] <= sinks_end) numbers->sink_mass += sum;
    if (cuts[i] >= local_begin) numbers->local_mass += sum;
    mass += sum;
  }
  numbers->sink_mass = RoundedShare(numbers->sink_mass);
  numbers->local_mass = RoundedShare(numbers->local_mass);
  // Of a row that sees all its keys what the sum lacks is rounding.
  numbers->outside_mass = extent.complete ? 0 : std::max(0.0, 1 - mass - numbers->learned_sink_mass);
}

void RowBlockPass::AnalyseRow(int64_t row, const float* batch_scores, int64_t first_column, size_t entry,
                              RowTable* table) {
  const RowExtent extent = ExtentOf(head_, options_, row);
  const int64_t width = extent.end - extent.begin;
  const float lse = head_.lse[static_cast<size_t>(row)];
  RowNumbers& numbers = table->rows[entry];
  numbers.num_columns = width;
  const float* scores = batch_scores + (extent.begin - first_column);
  std::copy_n(scores, width, p_.data());
  numbers.learned_sink_mass = RoundedShare(head_.SinkMass(row));
  Exponentiate(extent, lse, &numbers);
  numbers.entropy = RoundedUpToZero(Entropy(p_.data(), scores, width, lse) + SinkEntropy(head_, row));
  numbers.max_probability = width > 0 ? RoundedShare(static_cast<double>(kernels::MaxOf(p_.data(), width))) : 0;
  FillRowStatistics(head_, row, extent, {p_.data(), static_cast<size_t>(width)}, entry, table);

  const float* far_p = p_.data() + (extent.far_begin - extent.begin);
  for (const int32_t index : top_columns_.Select(far_p, extent.far_end - extent.far_begin, options_.retrieval_tokens)) {
    numbers.retrieval_mass += static_cast<double>(far_p[index]);
  }
  numbers.retrieval_mass = RoundedShare(numbers.retrieval_mass);
  line_sums_.AddRow(p_.data(), extent.position, extent.begin, extent.end, extent.far_begin, extent.far_end);

  ranked_mass_.Rank(p_.data(), width);
  std::transform(ranked_mass_.top_mass().begin(), ranked_mass_.top_mass().end(),
                 table->top_mass.begin() + static_cast<std::ptrdiff_t>(entry * ranked_mass_.top_mass().size()),
                 RoundedShare);
  std::copy(ranked_mass_.needed().begin(), ranked_mass_.needed().end(),
            table->needed.begin() + static_cast<std::ptrdiff_t>(entry * ranked_mass_.needed().size()));
}

// take(i, columns) with the agreement_k[i] best columns, for every k that leaves something out.
template <typename Take>
void RowBlockPass::SelectEach(const float* values, int64_t num_columns, Take&& take) {
  bool selected = false;
  for (size_t i = options_.agreement_k.size();
       i-- > 0;) {  // the largest k first: the others are chosen among its columns
    const int32_t k = options_.agreement_k[i];
    if (num_columns <= k) continue;
    take(i, selected ? top_columns_.Narrow(k) : top_columns_.Select(values, num_columns, k));
    selected = true;
  }
}

// Of one row, whose scores are those of the columns that it attends.
void RowBlockPass::MeasureAgreement(int64_t row, const float* scores, const kernels::ColumnRange& attended,
                                    size_t entry, RowTable* table) {
  const size_t num_k = options_.agreement_k.size();
  if (options_.agreement_r.empty() || num_k == 0) return;
  const size_t num_r = options_.agreement_r.size();
  const auto width = static_cast<size_t>(attended.end - attended.begin);
  const auto head_dim = static_cast<size_t>(head_.head_dim);
  exact_top_.resize(num_k);
  marked_.resize(static_cast<size_t>(head_.num_tokens));
  SelectEach(scores, attended.end - attended.begin,
             [&](size_t k, const std::vector<int32_t>& columns) { exact_top_[k] = columns; });
  // All of the row's estimates at once: the keys are read once for them.
  reduced_q_.resize(num_r * head_dim);
  estimates_.resize(num_r * width);
  for (size_t r = 0; r < num_r; ++r) {
    float* const reduced = reduced_q_.data() + r * head_dim;
    std::copy_n(head_.q.data() + row * head_.head_dim, head_dim, reduced);
    KeepLargest(reduced, head_.head_dim, options_.agreement_r[r]);
  }
  // Ranking alone matters: no temperature, no cap (both keep the order).
  for (int32_t begin = attended.begin; begin < attended.end; begin += kColumnsAtOnce) {
    const int32_t end = std::min(begin + kColumnsAtOnce, attended.end);
    kernels::ScoreBlock(reduced_q_.data(), head_.head_dim, static_cast<int32_t>(num_r), keys_, begin, end, head_.scale,
                        0.0f, estimates_.data() + (begin - attended.begin), static_cast<int64_t>(width));
  }
  for (size_t r = 0; r < num_r; ++r) {
    double* agreement = table->agreement.data() + (entry * num_r + r) * num_k;
    SelectEach(estimates_.data() + r * width, attended.end - attended.begin,
               [&](size_t k, const std::vector<int32_t>& columns) {
                 const std::vector<int32_t>& exact = exact_top_[k];
                 for (const int32_t column : exact) marked_[static_cast<size_t>(column)] = 1;
                 int32_t common = 0;
                 for (const int32_t column : columns) common += marked_[static_cast<size_t>(column)];
                 for (const int32_t column : exact) marked_[static_cast<size_t>(column)] = 0;
                 agreement[k] = static_cast<double>(common) / options_.agreement_k[k];
               });
  }
}

}  // namespace headscope::analysis
