// SPDX-License-Identifier: Apache-2.0
// How sparsity grows with length: prefixes of one trace (SampleAttention, figure 2 and table 4). Attention is causal,
// so the rows of a prefix are the trace's own.
#include <algorithm>
#include <array>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"
#include "statistics/ranked_mass.h"

namespace headscope::analysis {
namespace {

constexpr std::array kTargets = {0.90, 0.95, 0.99};
constexpr int64_t kRowsOfLength = 64, kShortestLength = 128;

// Ascending: the whole trace's, and halves of it.
std::vector<int64_t> Lengths(int64_t num_tokens) {
  std::vector<int64_t> lengths = {num_tokens};
  while (lengths.back() / 2 >= kShortestLength) lengths.push_back(lengths.back() / 2);
  return {lengths.rbegin(), lengths.rend()};
}

// [length][target]: share of the attended pairs that is needed.
std::vector<std::array<double, kTargets.size()>> KeptByLength(HeadRows* rows) {
  const HeadTensors& head = rows->head();
  RankedMass ranked({1}, {kTargets.begin(), kTargets.end()});
  std::vector<std::array<double, kTargets.size()>> kept;
  for (const int64_t length : Lengths(head.num_tokens)) {
    const auto in_prefix =
        std::lower_bound(head.row_positions.begin(), head.row_positions.end(), length) - head.row_positions.begin();
    std::array<double, kTargets.size()> needed = {};
    double columns = 0;
    for (const int64_t row : SpacedRows(in_prefix, kRowsOfLength)) {
      const std::span<const float> p = rows->Probabilities(row);
      ranked.Rank(p.data(), static_cast<int64_t>(p.size()));
      for (size_t i = 0; i < kTargets.size(); ++i) needed[i] += static_cast<double>(ranked.needed()[i]);
      columns += static_cast<double>(p.size());
    }
    for (double& count : needed) count /= columns;  // a prefix without recorded rows has no number: 0 / 0
    kept.push_back(needed);
  }
  return kept;
}

std::vector<FigurePanel> MakeSparsityByLength(const FigureInput& input, std::string* caption) {
  const auto all = OfEveryHead<std::vector<std::array<double, kTargets.size()>>>(input, KeptByLength);
  FigurePanel sparsity, kept;
  sparsity.title = "sparsity by length";
  sparsity.x = kept.x = {"tokens of the prefix", true, 0, 0};
  sparsity.y.title = "sparsity";
  kept.title = "share of the pairs that is needed";
  kept.y = {"kept share", true, 0, 0};
  for (size_t trace = 0; trace < all.size(); ++trace) {
    const std::vector<int64_t> lengths = Lengths(input.traces[trace].trace->num_tokens());
    for (size_t target = 0; target < kTargets.size(); ++target) {
      FigureSeries series = PartOfTrace(input, trace, "CRA " + Digits(kTargets[target], 2));
      for (size_t length = 0; length < lengths.size(); ++length) {
        std::vector<double> values;
        for (const auto& head : all[trace]) values.push_back(head[length][target]);
        series.x.push_back(static_cast<double>(lengths[length]));
        series.y.push_back(MeanOfNumbers(values));
      }
      kept.series.push_back(series);
      for (double& value : series.y) value = 1 - value;
      sparsity.series.push_back(std::move(series));
    }
  }
  *caption =
      "Prefixes of one trace, 64 rows of each, mean over heads. SampleAttention, table 4 (ChatGLM-6B, 4K to 128K "
      "tokens): 88.00, 90.74, 92.52, 93.88, 94.89, 95.84 %; the kept share falls by some 20 % a doubling.";
  return {std::move(sparsity), std::move(kept)};
}

}  // namespace

const FigureMaker& SparsityByLengthFigure() {
  static const SimpleFigure figure({"sparsity-by-length", "Sparsity by length", "SampleAttention, figure 2 and table 4",
                                    "sparsity that CRA targets leave, over prefixes of one trace"},
                                   MakeSparsityByLength);
  return figure;
}

}  // namespace headscope::analysis
