// SPDX-License-Identifier: Apache-2.0
// How much of a row's best keys another row's, layer's or prompt's are: what reuse of a selection would find.
#include <algorithm>
#include <array>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

constexpr int32_t kReusedKeys = 64;
constexpr std::array<int64_t, 9> kRowsApart = {1, 2, 4, 8, 16, 32, 64, 128, 256};
constexpr int64_t kComparedRows = 64;

struct BestKeys {
  std::array<double, kRowsApart.size()> by_distance = {};  // agreement with the row that far before
  std::vector<int64_t> positions;                          // of the rows below
  std::vector<std::vector<int32_t>> of_row;                // their best keys, ascending
};

BestKeys BestKeysOf(HeadRows* rows) {
  const HeadTensors& head = rows->head();
  BestKeys found;
  const auto best = [rows, &head](int64_t row) {
    std::vector<int32_t> keys = LargestIndices(rows->Scores(row), kReusedKeys);
    for (int32_t& key : keys) key += head.AttendedColumns(row).begin;
    return keys;
  };
  std::array<double, kRowsApart.size()> counts = {};
  for (const int64_t row : SpacedRows(head.num_rows, kComparedRows)) {
    if (head.row_positions[static_cast<size_t>(row)] < 2 * kReusedKeys) continue;
    std::vector<int32_t> keys = best(row);
    for (size_t i = 0; i < kRowsApart.size(); ++i) {
      const int64_t other = row - kRowsApart[i];
      // Rows next to each other alone: of a sample nothing is known between them.
      if (other < 0 || head.row_positions[static_cast<size_t>(row)] - head.row_positions[static_cast<size_t>(other)] !=
                           static_cast<int32_t>(kRowsApart[i]))
        continue;
      found.by_distance[i] += SharedPart(keys, best(other));
      ++counts[i];
    }
    found.positions.push_back(head.row_positions[static_cast<size_t>(row)]);
    found.of_row.push_back(std::move(keys));
  }
  for (size_t i = 0; i < kRowsApart.size(); ++i) found.by_distance[i] /= counts[i];
  return found;
}

// Mean agreement of two heads' rows at the same positions; NaN: they have none in common.
double Agreement(const BestKeys& a, const BestKeys& b) {
  std::vector<double> shared;
  for (size_t i = 0; i < a.positions.size(); ++i) {
    const auto at = std::lower_bound(b.positions.begin(), b.positions.end(), a.positions[i]);
    if (at == b.positions.end() || *at != a.positions[i]) continue;
    shared.push_back(SharedPart(a.of_row[i], b.of_row[static_cast<size_t>(at - b.positions.begin())]));
  }
  return MeanOfNumbers(shared);
}

std::vector<FigurePanel> MakeIndexReuse(const FigureInput& input, std::string* caption) {
  const auto all = OfEveryHead<BestKeys>(input, BestKeysOf);
  FigurePanel rows, layers, prompts;
  rows.title = "with an earlier query of the same head";
  rows.x = {"queries apart", true, 0, 0};
  rows.y = {"shared part of the 64 best keys", false, 0, 1};
  layers.title = "with the same head number of the layer before";
  layers.x.title = "layer";
  layers.y = rows.y;
  prompts.title = "with another prompt, at the same position";
  prompts.x.title = "layer";
  prompts.y = rows.y;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    const FigureTrace& of = input.traces[trace];
    FigureSeries by_distance{of.name, {}, {}};
    for (size_t i = 0; i < kRowsApart.size(); ++i) {
      std::vector<double> values;
      for (const BestKeys& head : all[trace]) values.push_back(head.by_distance[i]);
      by_distance.x.push_back(static_cast<double>(kRowsApart[i]));
      by_distance.y.push_back(MeanOfNumbers(values));
    }
    rows.series.push_back(std::move(by_distance));
    const auto with = [&](size_t head, size_t other_trace, HeadId id) {
      const std::vector<HeadId>& heads = input.traces[other_trace].heads;
      const auto at = std::find(heads.begin(), heads.end(), id);
      return at == heads.end() ? MeanOfNumbers({})
                               : Agreement(all[trace][head], all[other_trace][static_cast<size_t>(at - heads.begin())]);
    };
    layers.series.push_back(MeanByLayer(of, [&](size_t head) {
      return with(head, trace, {of.heads[head].layer - 1, of.heads[head].head});
    }));
    for (size_t other = trace + 1; other < all.size(); ++other) {
      FigureSeries series = MeanByLayer(of, [&](size_t head) { return with(head, other, of.heads[head]); });
      series.name += " and " + input.traces[other].name;
      prompts.series.push_back(std::move(series));
    }
  }
  *caption =
      "Shared part of the 64 best keys of two rows (64 rows of a head, mean over heads): between neighbouring "
      "queries " +
      DigitsOfTraces(input, [&rows](size_t trace) { return rows.series[trace].y.front(); }) + ".";
  std::vector<FigurePanel> panels = {std::move(rows), std::move(layers)};
  if (!prompts.series.empty()) panels.push_back(std::move(prompts));
  return panels;
}

}  // namespace

const FigureMaker& IndexReuseFigure() {
  static const SimpleFigure figure(
      {"index-reuse", "Agreement of indices", "", "shared part of the best keys between queries, layers and prompts"},
      MakeIndexReuse);
  return figure;
}

}  // namespace headscope::analysis
