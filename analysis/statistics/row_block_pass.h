// SPDX-License-Identifier: Apache-2.0
// The streaming pass: from Q, K and LSE to the numbers of every analysed row and the sums over rows, one block of rows
// at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/statistics.h"
#include "kernels/cpu_scores.h"
#include "statistics/logits_by_distance.h"
#include "statistics/mass_by_line.h"
#include "statistics/ranked_mass.h"
#include "statistics/top_columns.h"

namespace headscope::analysis {

// Rows of one aligned block of block_size positions that are analysed.
struct RowBlock {
  std::vector<int64_t> rows;
};
// Every recorded row when max_rows is 0, else about max_rows, evenly spaced, the last one included; by blocks,
// ascending.
std::vector<RowBlock> ChooseRows(const HeadTensors& head, int32_t block_size, int64_t max_rows);

// The columns that are sinks: the first tokens that the model saw, of which a part that was cut out behind them has
// none.
int64_t SinkColumns(const HeadTensors& head, const StatisticsOptions& options);

// Of the far mass of a row block by key block: what the best of them hold, and what as many would hold if it lay
// evenly. last_row: of the block, whose far region touches the most key blocks.
void SumBestBlocks(const HeadTensors& head, const StatisticsOptions& options, int64_t last_row,
                   std::vector<double> key_block_mass, double* mass, double* chance);

// Where the columns of a row lie.
struct RowExtent {
  int64_t position = 0;
  bool complete = true;                // all keys of the model's row are there
  int64_t begin = 0, end = 0;          // attended
  int64_t far_begin = 0, far_end = 0;  // outside sinks and local window, inside [begin, end)
};
RowExtent ExtentOf(const HeadTensors& head, const StatisticsOptions& options, int64_t row);

// The learned sink's term of the entropy of a row's whole distribution.
double SinkEntropy(const HeadTensors& head, int64_t row);

// What one row contributes.
struct RowNumbers {
  double entropy = 0, max_probability = 0;
  double sink_mass = 0, local_mass = 0, retrieval_mass = 0;
  double outside_mass = 0;       // on keys that a cut trace does not hold
  double learned_sink_mass = 0;  // on the head's learned sink
  int64_t num_columns = 0;
};

// The numbers of all rows; each row is written by one worker, so that sums over rows do not depend on the threads.
struct RowTable {
  std::vector<RowNumbers> rows;
  std::vector<double> row_statistics;  // [rows, RowStatistics()]
  std::vector<uint8_t> sampled;        // [rows]: agreement and the statistics that sample rows look at this one
  std::vector<double> top_mass;        // [rows, counts]
  std::vector<int64_t> needed;         // [rows, targets]
  std::vector<double> agreement;       // [rows, r x k]; NaN: not sampled, or too few columns for a choice
  std::vector<double> block_chance;    // [row blocks]: what as many blocks would hold of the far mass if it lay evenly
  std::vector<double> block_mass;      // [row blocks]: mass of the best key blocks, summed over the block's rows
};

inline constexpr int32_t kLargestTopK = 1024;
std::vector<int32_t> TopKCounts();  // 1, 2, 4 .. kLargestTopK

// One worker: its buffers and its share of the sums.
class RowBlockPass {
 public:
  RowBlockPass(const HeadTensors& head, const kernels::PackedKeys& keys, const StatisticsOptions& options);

  // Rows of `block` are rows first_entry, first_entry + 1, .. of the table.
  void Run(const RowBlock& block, size_t block_index, size_t first_entry, RowTable* table);
  const LineSums& line_sums() const { return line_sums_; }
  const LogitsByDistance& logits() const { return logits_; }  // of sampled rows

 private:
  void RunRows(const int64_t* rows, int64_t count, size_t first_entry, RowTable* table);
  // `batch_scores` are those of columns [first_column, ..).
  void AnalyseRow(int64_t row, const float* batch_scores, int64_t first_column, size_t entry, RowTable* table);
  void Exponentiate(const RowExtent& extent, float lse, RowNumbers* numbers);
  template <typename Take>
  void SelectEach(const float* values, int64_t num_columns, Take&& take);
  void MeasureAgreement(int64_t row, const float* scores, const kernels::ColumnRange& attended, size_t entry,
                        RowTable* table);

  const HeadTensors& head_;
  const kernels::PackedKeys& keys_;
  const StatisticsOptions& options_;
  const int64_t sink_columns_;
  LineSums line_sums_;
  LogitsByDistance logits_;
  RankedMass ranked_mass_;
  TopColumns top_columns_;
  std::vector<float> q_;                         // gathered rows, [rows, head_dim]
  std::vector<float> scores_;                    // [rows, columns]
  std::vector<float> reduced_q_;                 // [r, head_dim]: one row with its largest components alone
  std::vector<float> estimates_;                 // [r, columns]: one row's scores by those
  std::vector<float> p_;                         // one row
  std::vector<double> key_block_mass_;           // [key blocks] of the row block
  std::vector<std::vector<int32_t>> exact_top_;  // [k], of one row
  std::vector<uint8_t> marked_;  // [tokens]: columns of one exact list, while another is compared with it
};

}  // namespace headscope::analysis
