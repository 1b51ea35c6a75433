// SPDX-License-Identifier: Apache-2.0
// A statistic that is taken of every row of a head and averaged: what it is called, what it reads, how it is computed.
//
// A new one is one file in analysis/row_statistics that defines a subclass and a function that returns it, and one line
// in analysis/row_statistics/row_statistic_list.h. The metrics of matrix, table, filter, command line, report and
// files, and what is kept on disk, come from there (docs/analysis.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

// Probabilities of a row one by one: from what a pass over its scores left, else from q and k.
class KeyProbabilities {
 public:
  virtual ~KeyProbabilities() = default;
  // 0 where the row does not attend to the key or the trace does not hold it.
  virtual double At(int64_t position) const = 0;
};

// One query row, as the model's attention saw it.
struct RowView {
  int64_t position = 0;          // of the query token
  std::span<const float> q;      // [head_dim], as recorded
  int64_t first_key = 0;         // position of the first key below
  std::span<const float> p;      // probabilities of the keys that the row attends and the trace holds; fp32
  double outside_mass = 0;       // mass on keys that a cut trace does not hold: what p and a learned sink lack of 1
  double learned_sink_mass = 0;  // mass that the head's learned logit takes; 0 without one
  double lse = 0;                // as recorded
  double entropy = 0;            // nats
  double max_probability = 0;    // of the keys that the trace holds
  // Of the head's far keys (outside sinks and local window), those that p has. Empty where p is.
  std::span<const float> far_p;
  std::span<const float> q_pre_rope;  // [head_dim], before RoPE; empty: not recorded
  // Of every token the last one before it that has the same id, -1 where none has. Empty: token ids are not known.
  std::span<const int32_t> previous_same;
  const KeyProbabilities* keys = nullptr;  // of single keys, whether or not p is there; null: not known
};

class RowStatistic {
 public:
  virtual ~RowStatistic() = default;
  virtual const MetricInfo& info() const = 0;
  // False: RowView::p may be empty, and a head on a GPU need not come back for it. True costs a pass over the scores on
  // the CPU where a GPU makes the other statistics.
  virtual bool reads_probabilities() const = 0;
  // True: of a head with more than kSampledRows rows only that many are looked at, evenly spaced, the last one among
  // them. For what costs more per row than it tells.
  virtual bool samples_rows() const { return false; }
  // What a head's number is of its rows' ones.
  enum class Over { kMean, kMaximum };
  virtual Over over_rows() const { return Over::kMean; }
  // Any thread. NaN: this row has no such number, and the mean leaves it out.
  virtual double OfRow(const RowView& row) const = 0;
  // The head's number when no row has one.
  virtual double without_rows() const { return 0; }
};

inline constexpr int64_t kSampledRows = 1024;

// Every one, in the order in which matrix and tables list them.
const std::vector<const RowStatistic*>& RowStatistics();

}  // namespace headscope::analysis
