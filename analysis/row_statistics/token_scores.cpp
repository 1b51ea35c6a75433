// SPDX-License-Identifier: Apache-2.0
// What a head does with the tokens themselves: looks at the one before (previous-token), at earlier ones like its own
// (duplicate-token), or at what followed those (induction). Elhage et al., "A Mathematical Framework for Transformer
// Circuits"; Olsson et al., "In-context Learning and Induction Heads".
#include <limits>

#include "row_statistic_list.h"

namespace headscope::analysis {
namespace {

constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();

class PreviousTokenStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {"previous_token",
                                    "Previous-token score",
                                    "share",
                                    "mass on the token before the query's, mean over rows",
                                    false,
                                    0,
                                    1};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  double OfRow(const RowView& row) const override {
    return row.keys == nullptr || row.position == 0 ? kNoScore : row.keys->At(row.position - 1);
  }
};

// Mass on the tokens `offset` behind every earlier one that has the query's id.
double MassBehindSame(const RowView& row, int64_t offset) {
  if (row.keys == nullptr || row.previous_same.empty()) return kNoScore;
  int32_t same = row.previous_same[static_cast<size_t>(row.position)];
  if (same < 0) return kNoScore;
  double mass = 0;
  for (; same >= 0; same = row.previous_same[static_cast<size_t>(same)]) mass += row.keys->At(same + offset);
  return mass;
}

class DuplicateTokenStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {"duplicate_token",
                                    "Duplicate-token score",
                                    "share",
                                    "mass on earlier tokens with the query's own id, mean over rows that have any",
                                    false,
                                    0,
                                    1};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  bool samples_rows() const override { return true; }
  double OfRow(const RowView& row) const override { return MassBehindSame(row, 0); }
};

class InductionStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {
        "induction",
        "Induction score",
        "share",
        "mass on tokens that followed an earlier one with the query's own id, mean over rows that have any",
        false,
        0,
        1};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  bool samples_rows() const override { return true; }
  double OfRow(const RowView& row) const override { return MassBehindSame(row, 1); }
};

}  // namespace

const RowStatistic& PreviousToken() {
  static const PreviousTokenStatistic statistic;
  return statistic;
}

const RowStatistic& DuplicateToken() {
  static const DuplicateTokenStatistic statistic;
  return statistic;
}

const RowStatistic& Induction() {
  static const InductionStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
