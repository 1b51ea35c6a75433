// SPDX-License-Identifier: Apache-2.0
// What MInference and SampleAttention choose by: mass of columns, of slashes and of blocks, a part of the rows at a
// time, since a column of the first rows may fade in later ones (SampleAttention, figure 4).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "figures/figure_list.h"
#include "figures/first_of_class.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

constexpr int64_t kQuarters = 4;
constexpr int64_t kMostBins = 256;  // of columns, and of slashes
constexpr int64_t kLeastBlockTokens = 64,
                  kMostBlocksASide = 32;  // blocks of more tokens where that many do not cover them

struct LineSums {
  // [chunk][bin]: mean over the chunk's looked-at rows of a row's mass.
  std::array<std::vector<double>, kQuarters> columns, slashes;
  // [rows of blocks][blocks of keys]: mean over the looked-at rows among them; NaN where there are none, or no key.
  std::vector<std::vector<double>> blocks;
  int64_t block_tokens = 0;
};

int64_t NumBins(int64_t num_tokens) {
  return std::min(num_tokens, kMostBins);
}

LineSums SumLines(HeadRows* rows, int64_t max_rows) {
  const HeadTensors& head = rows->head();
  const int64_t tokens = head.num_tokens, bins = NumBins(tokens);
  LineSums sums;
  sums.block_tokens = kLeastBlockTokens *
                      ((tokens + kLeastBlockTokens * kMostBlocksASide - 1) / (kLeastBlockTokens * kMostBlocksASide));
  const auto blocks = static_cast<size_t>((tokens + sums.block_tokens - 1) / sums.block_tokens);
  sums.blocks.assign(blocks, std::vector<double>(blocks, 0));
  for (auto* const lines : {&sums.columns, &sums.slashes}) lines->fill(std::vector<double>(static_cast<size_t>(bins)));
  std::array<double, kQuarters> rows_of_chunk = {};
  std::vector<double> rows_of_block(blocks);
  for (const int64_t row : SpacedRows(head.num_rows, max_rows)) {
    const auto chunk = static_cast<size_t>(row * kQuarters / head.num_rows);
    const int64_t begin = head.AttendedColumns(row).begin;
    const int64_t position = head.row_positions[static_cast<size_t>(row)];
    const auto of_rows = static_cast<size_t>(position / sums.block_tokens);
    const std::span<const float> p = rows->Probabilities(row);
    for (size_t i = 0; i < p.size(); ++i) {
      const int64_t column = begin + static_cast<int64_t>(i);
      const auto mass = static_cast<double>(p[i]);
      sums.columns[chunk][static_cast<size_t>(column * bins / tokens)] += mass;
      sums.slashes[chunk][static_cast<size_t>((position - column) * bins / tokens)] += mass;
      sums.blocks[of_rows][static_cast<size_t>(column / sums.block_tokens)] += mass;
    }
    ++rows_of_chunk[chunk];
    ++rows_of_block[of_rows];
  }
  for (size_t chunk = 0; chunk < kQuarters; ++chunk) {
    for (auto* const lines : {&sums.columns[chunk], &sums.slashes[chunk]}) {
      for (double& mass : *lines) mass /= rows_of_chunk[chunk];  // 0 / 0: no row was looked at
    }
  }
  for (size_t row = 0; row < blocks; ++row) {
    for (size_t column = 0; column < blocks; ++column) {
      sums.blocks[row][column] = rows_of_block[row] > 0 && column <= row ? sums.blocks[row][column] / rows_of_block[row]
                                                                         : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return sums;
}

FigurePanel LinesPanel(const std::string& title, const std::string& axis, int64_t num_tokens,
                       const std::array<std::vector<double>, kQuarters>& lines) {
  FigurePanel panel;
  panel.title = title;
  panel.x.title = axis;
  panel.y = {"mass of a row", true, 0, 0};
  panel.ordered = true;
  for (size_t chunk = 0; chunk < lines.size(); ++chunk) {
    FigureSeries series{"quarter " + std::to_string(chunk + 1) + " of the rows", {}, lines[chunk]};
    const auto bins = static_cast<double>(series.y.size());
    for (double bin = 0; bin < bins; ++bin) series.x.push_back((bin + 0.5) * static_cast<double>(num_tokens) / bins);
    panel.series.push_back(std::move(series));
  }
  return panel;
}

FigurePanel BlocksPanel(const std::string& title, const LineSums& sums) {
  FigurePanel panel;
  panel.title = title;
  panel.kind = FigureKind::kHeat;
  panel.x.title = "first key of the block";
  panel.y.title = "first query";
  panel.value.title = "log10 of a row's mass";
  for (size_t block = 0; block < sums.blocks.size(); ++block) {
    const std::string first = std::to_string(static_cast<int64_t>(block) * sums.block_tokens);
    panel.categories.push_back(first);
    FigureSeries row{first, {}, {}};
    for (const double mass : sums.blocks[block])
      row.y.push_back(mass > 0 ? std::log10(mass) : std::numeric_limits<double>::quiet_NaN());
    panel.series.push_back(std::move(row));
  }
  return panel;
}

std::vector<FigurePanel> MakeLineSums(const FigureInput& input, std::string* caption) {
  const FirstOfClass first = ChooseFirstOfClass(input);
  const auto all =
      OfEveryHead<LineSums>(first.input, [&input](HeadRows* rows) { return SumLines(rows, input.max_rows); });
  std::vector<FigurePanel> panels;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    const int64_t tokens = first.input.traces[trace].trace->num_tokens();
    for (size_t head = 0; head < all[trace].size(); ++head) {
      const std::string& title = first.titles[trace][head];
      panels.push_back(LinesPanel(title + ", columns", "key", tokens, all[trace][head].columns));
      panels.push_back(LinesPanel(title + ", slashes", "distance, tokens", tokens, all[trace][head].slashes));
      panels.push_back(BlocksPanel(title + ", blocks", all[trace][head]));
    }
  }
  *caption = "On " + FirstOfClassText() +
             ": a row's mass by key and by distance, mean over each quarter of the rows, and by blocks. "
             "SampleAttention, figure 4: columns, slashes and both; a column that is prominent in the upper half "
             "may fade in the lower one.";
  return panels;
}

}  // namespace

const FigureMaker& LineSumsFigure() {
  static const SimpleFigure figure(
      {"line-sums", "Mass of columns, slashes and blocks",
       "SampleAttention, figures 4, 12 and 13; MInference, figure 3a",
       "mass by key, by distance and by block, for each quarter of the rows", 1, /*by_class=*/true},
      MakeLineSums);
  return figure;
}

}  // namespace headscope::analysis
