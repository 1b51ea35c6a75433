// SPDX-License-Identifier: Apache-2.0
// What figures share: a loop over the heads of all traces, and a head's rows one by one.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "analysis/figures.h"
#include "analysis/statistics.h"
#include "kernels/cpu_scores.h"

namespace headscope::analysis {

// Rows [0, num_rows) of a head, of which `count` (0: all) evenly spaced, the last one included.
std::vector<int64_t> SpacedRows(int64_t num_rows, int64_t count);

// A head's rows. One thread.
class HeadRows {
 public:
  explicit HeadRows(HeadTensorsPtr head);
  const HeadTensors& head() const { return *head_; }
  // Of the columns that the row attends; valid until the next call.
  std::span<const float> Scores(int64_t row);
  // exp(score - lse); replaces what Scores gave.
  std::span<const float> Probabilities(int64_t row);
  // Scores of a query that stands in for the row's, [head_dim], without soft cap.
  std::span<const float> ScoresOf(const std::vector<float>& q, int64_t row);

 private:
  std::span<const float> ScoreRow(const float* q, int64_t row, float soft_cap);
  HeadTensorsPtr head_;
  kernels::PackedKeys keys_;
  std::vector<float> values_;
};

// Calls run(trace, head, tensors) for every head of every trace, each on one thread, several at a time. Throws
// CancelledError.
void ForEachHead(const FigureInput& input,
                 const std::function<void(size_t trace, size_t head, const HeadTensorsPtr& tensors)>& run);

// The head's rows and tokens before `length`.
HeadTensors PrefixOf(const HeadTensors& head, int64_t length);

// Statistics of every head of every trace, [trace][head], of input.max_rows rows.
std::vector<std::vector<HeadStatistics>> StatisticsOfAll(const FigureInput& input, bool with_agreement = false);

// One result a head, [trace][head].
template <typename Result>
std::vector<std::vector<Result>> OfEveryHead(const FigureInput& input,
                                             const std::function<Result(HeadRows* rows)>& compute) {
  std::vector<std::vector<Result>> results;
  for (const FigureTrace& trace : input.traces) results.emplace_back(trace.heads.size());
  ForEachHead(input, [&](size_t trace, size_t head, const HeadTensorsPtr& tensors) {
    HeadRows rows(tensors);
    results[trace][head] = compute(&rows);
  });
  return results;
}

// Layers of a trace's heads, ascending.
std::vector<int32_t> LayersOf(const FigureTrace& trace);
// Mean of the heads of each of LayersOf; NaN values are left out, and NaN where a layer has no number.
FigureSeries MeanByLayer(const FigureTrace& trace, const std::function<double(size_t head)>& value);
// An empty series of one part of a trace's numbers, such as "k = 32"; of several traces, named by both.
FigureSeries PartOfTrace(const FigureInput& input, size_t trace, const std::string& part);
// Layer x head, one value each.
FigurePanel HeadsAsHeat(const FigureTrace& trace, const std::string& title, const std::string& value_title,
                        const std::function<double(size_t head)>& value);
// Share of the values in each of `bins` even bins of [least, most]; x is the bin's middle.
FigureSeries Histogram(const std::string& name, const std::vector<double>& values, double least, double most,
                       int32_t bins);
double MeanOfNumbers(const std::vector<double>& values);
// The same range of values, and so of colours, in all panels of kHeat.
void ShareValueRange(std::vector<FigurePanel>* panels);
// "0.123"
std::string Digits(double value, int digits = 3);
// A number of each trace for a caption: "0.123", of several traces "0.123 (one), 0.456 (two)".
std::string OfTraces(const FigureInput& input, const std::function<std::string(size_t trace)>& text);
std::string DigitsOfTraces(const FigureInput& input, const std::function<double(size_t trace)>& value, int digits = 3);

// The indices of the k largest, ascending (equal values: the lower index).
std::vector<int32_t> LargestIndices(std::span<const float> values, int32_t k);
std::vector<int32_t> LargestIndices(const std::vector<double>& values, int64_t k);
// Share of `a` that `b` has too; both ascending, `a` not empty.
double SharedPart(const std::vector<int32_t>& a, const std::vector<int32_t>& b);

}  // namespace headscope::analysis
