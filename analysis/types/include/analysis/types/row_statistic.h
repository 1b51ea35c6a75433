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

// One query row, as the model's attention saw it.
struct RowView {
  int64_t position = 0;          // of the query token
  std::span<const float> q;      // [head_dim], as recorded
  int64_t first_key = 0;         // position of the first key below
  std::span<const float> p;      // probabilities of the keys that the row attends and the trace holds; fp32
  double outside_mass = 0;       // mass on keys that a cut trace does not hold: what p and a learned sink lack of 1
  double learned_sink_mass = 0;  // mass that the head's learned logit takes; 0 without one
};

class RowStatistic {
 public:
  virtual ~RowStatistic() = default;
  virtual const MetricInfo& info() const = 0;
  // False: OfRow looks at q alone, RowView::p is empty, and a head on a GPU need not come back for it. True costs a
  // pass over the head's scores on the CPU where a GPU makes the other statistics.
  virtual bool reads_probabilities() const = 0;
  // Any thread. NaN: this row has no such number, and the mean leaves it out.
  virtual double OfRow(const RowView& row) const = 0;
  // The head's number when no row has one.
  virtual double without_rows() const { return 0; }
};

// Every one, in the order in which matrix and tables list them.
const std::vector<const RowStatistic*>& RowStatistics();

}  // namespace headscope::analysis
