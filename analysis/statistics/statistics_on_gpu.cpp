// SPDX-License-Identifier: Apache-2.0
#include "statistics/statistics_on_gpu.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "analysis/types/rounding.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "head/head_checks.h"
#include "kernels/cuda_statistics.h"
#include "kernels/parallel.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

// Columns and distances, of all pairs and of far ones; distances beyond the tokens there are none of.
Status SumLines(const HeadTensors& head, const StatisticsOptions& options, LineTotals* lines) {
  const auto num_tokens = static_cast<size_t>(head.num_tokens);
  const auto num_distances = static_cast<size_t>(int64_t{head.row_positions.front()} + head.num_rows);
  kernels::LineOptions asked;
  asked.sink_tokens = static_cast<int32_t>(SinkColumns(head, options));
  asked.local_tokens = options.local_tokens;
  const auto sum = [&](kernels::LineRegion region, std::vector<double>* columns, std::vector<double>* diagonals) {
    asked.region = region;
    columns->resize(num_tokens);
    diagonals->resize(num_distances);
    Status status = head.gpu->LineMass(asked, columns->data(), diagonals->data());
    diagonals->resize(num_tokens);
    return status;
  };
  if (Status status = sum(kernels::LineRegion::kAll, &lines->columns, &lines->diagonals); !status.ok()) return status;
  return sum(kernels::LineRegion::kFar, &lines->far_columns, &lines->far_diagonals);
}

void FillTopMass(const std::vector<float>& top, RowTable* table) {
  std::transform(top.begin(), top.end(), table->top_mass.begin(),
                 [](float mass) { return RoundedShare(static_cast<double>(mass)); });
  for (size_t row = 0; row < table->rows.size(); ++row)
    table->rows[row].max_probability = table->top_mass[row * kernels::kTopMassCounts];
}

void FillRows(const HeadTensors& head, const kernels::RowNumbers& numbers, const std::vector<double>& in_trace,
              RowTable* table) {
  for (size_t row = 0; row < table->rows.size(); ++row) {
    const kernels::ColumnRange attended = head.AttendedColumns(static_cast<int64_t>(row));
    RowNumbers& of_row = table->rows[row];
    of_row.num_columns = attended.end - attended.begin;
    const auto number = static_cast<int64_t>(row);
    of_row.entropy = RoundedUpToZero(static_cast<double>(numbers.entropy[row]) + SinkEntropy(head, number));
    of_row.learned_sink_mass = RoundedShare(head.SinkMass(number));
    of_row.sink_mass = RoundedShare(static_cast<double>(numbers.sink_mass[row]));
    of_row.local_mass = RoundedShare(static_cast<double>(numbers.local_mass[row]));
    of_row.retrieval_mass = RoundedShare(static_cast<double>(numbers.retrieval_mass[row]));
    of_row.outside_mass = head.SeesAllItsKeys(number) ? 0 : std::max(0.0, 1 - in_trace[row] - of_row.learned_sink_mass);
  }
}

// rows: whose `common` is.
void FillAgreement(const std::vector<int32_t>& rows, const std::vector<int32_t>& common,
                   const StatisticsOptions& options, RowTable* table) {
  const size_t per_row = options.agreement_r.size() * options.agreement_k.size();
  for (size_t i = 0; i < common.size(); ++i) {
    const int32_t k = options.agreement_k[i % options.agreement_k.size()];
    table->agreement[static_cast<size_t>(rows[i / per_row]) * per_row + i % per_row] =
        common[i] < 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(common[i]) / k;
  }
}

}  // namespace

Status RunRowsOnGpu(const HeadTensors& head, const StatisticsOptions& options, const std::vector<RowBlock>& blocks,
                    RowTable* table, LineTotals* lines) {
  if (static_cast<int64_t>(table->rows.size()) != head.num_rows) {
    return {StatusCode::kUnsupported, "head " + HeadName(head.id) + ": a sample of its rows is taken on the CPU"};
  }
  if (options.block_size != kernels::kStatisticsBlock || options.retrieval_tokens != kernels::kRetrievalTokens) {
    return {StatusCode::kUnsupported, "head " + HeadName(head.id) + ": block_size " +
                                          std::to_string(options.block_size) + " and retrieval_tokens " +
                                          std::to_string(options.retrieval_tokens) +
                                          " are not those that the GPU counts by"};
  }
  kernels::RowNumbersRequest request;
  request.sink_columns = static_cast<int32_t>(SinkColumns(head, options));
  request.local_tokens = options.local_tokens;
  request.targets = options.cra_targets;
  if (!options.agreement_k.empty()) request.agreement_r = options.agreement_r;
  request.agreement_k = options.agreement_k;
  for (size_t row = 0; row < table->sampled.size(); ++row) {
    if (table->sampled[row] != 0) request.agreement_rows.push_back(static_cast<int32_t>(row));
  }
  request.stop = options.stop;
  request.take_blocks = [&](int64_t block, const float* masses, int64_t num_key_blocks) {
    const auto index = static_cast<size_t>(block);
    SumBestBlocks(head, options, blocks[index].rows.back(), {masses, masses + num_key_blocks},
                  &table->block_mass[index], &table->block_chance[index]);
  };
  kernels::RowNumbers numbers;
  if (Status status = head.gpu->RowNumbers(request, &numbers); !status.ok()) return status;
  if (Status status = SumLines(head, options, lines); !status.ok()) return status;
  std::vector<float> top(table->rows.size() * kernels::kTopMassCounts);
  if (Status status = head.gpu->TopMass(top.data()); !status.ok()) return status;
  FillTopMass(top, table);
  try {
    FillRows(head, numbers, MassInTrace(head, 0, options.stop), table);
  } catch (const CancelledError& stopped) {
    return StatusOf<Status>(stopped);
  }
  table->needed.assign(numbers.needed.begin(), numbers.needed.end());
  FillAgreement(request.agreement_rows, numbers.common, options, table);
  return {};
}

}  // namespace headscope::analysis
