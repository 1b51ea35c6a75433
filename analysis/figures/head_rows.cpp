// SPDX-License-Identifier: Apache-2.0
#include "figures/head_rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>

#include "analysis/sweep.h"
#include "analysis/types/number_text.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "kernels/stop_status.h"
#include "statistics/top_columns.h"

namespace headscope::analysis {

using kernels::Status;

std::vector<int64_t> SpacedRows(int64_t num_rows, int64_t count) {
  const int64_t chosen = count > 0 ? std::min(count, num_rows) : num_rows;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < chosen; ++i) rows.push_back((i + 1) * num_rows / chosen - 1);
  return rows;
}

HeadRows::HeadRows(HeadTensorsPtr head)
    : head_(std::move(head)),
      keys_(head_->k.data(), kernels::DType::kFloat32, head_->head_dim, static_cast<int32_t>(head_->num_tokens),
            head_->head_dim) {}

std::span<const float> HeadRows::ScoreRow(const float* q, int64_t row, float soft_cap) {
  constexpr int32_t kColumnsAtOnce = 512;
  const kernels::ColumnRange attended = head_->AttendedColumns(row);
  values_.resize(static_cast<size_t>(attended.end - attended.begin));
  for (int32_t begin = attended.begin; begin < attended.end; begin += kColumnsAtOnce) {
    const int32_t end = std::min(begin + kColumnsAtOnce, attended.end);
    kernels::ScoreBlock(q, head_->head_dim, 1, keys_, begin, end, head_->scale, soft_cap,
                        values_.data() + (begin - attended.begin), end - begin);
  }
  return values_;
}

std::span<const float> HeadRows::Scores(int64_t row) {
  return ScoreRow(head_->q.data() + row * head_->head_dim, row, head_->soft_cap);
}

std::span<const float> HeadRows::Probabilities(int64_t row) {
  Scores(row);
  kernels::ExpInPlace(values_.data(), static_cast<int64_t>(values_.size()), head_->lse[static_cast<size_t>(row)]);
  return values_;
}

std::span<const float> HeadRows::ScoresOf(const std::vector<float>& q, int64_t row) {
  return ScoreRow(q.data(), row, 0);
}

void ForEachHead(const FigureInput& input,
                 const std::function<void(size_t trace, size_t head, const HeadTensorsPtr& tensors)>& run) {
  std::vector<std::pair<size_t, size_t>> all;
  for (size_t trace = 0; trace < input.traces.size(); ++trace) {
    for (size_t head = 0; head < input.traces[trace].heads.size(); ++head) all.emplace_back(trace, head);
  }
  SweepOptions sweep;
  sweep.num_threads = input.num_threads;
  sweep.most_at_once = std::numeric_limits<int32_t>::max();
  sweep.stop = input.stop;
  sweep.progress = [&input](const SweepProgress& at) {
    if (input.progress) input.progress(at.share);
  };
  const Status status = SweepCells(SweepAxes{.num_heads = all.size()}, sweep, [&](const SweepCell& cell) -> Status {
    const auto [trace, head] = all[cell.head];
    const HeadTensorsPtr tensors = LoadHead(*input.traces[trace].trace, input.traces[trace].heads[head]);
    if (tensors->num_rows == 0)
      throw BadInputError(
          {.file = input.traces[trace].name, .problem = "it holds no query rows", .remedy = "capture again"});
    run(trace, head, tensors);
    // What it made may be a part when it was stopped.
    return input.stop.stop_requested() ? kernels::Stopped() : Status{};
  });
  CheckStatus(status, input.traces.front().name);
}

HeadTensors PrefixOf(const HeadTensors& head, int64_t length) {
  HeadTensors prefix = head;
  prefix.num_tokens = length;
  prefix.num_rows =
      std::lower_bound(head.row_positions.begin(), head.row_positions.end(), length) - head.row_positions.begin();
  prefix.row_positions.resize(static_cast<size_t>(prefix.num_rows));
  prefix.q.resize(static_cast<size_t>(prefix.num_rows * head.head_dim));
  prefix.lse.resize(static_cast<size_t>(prefix.num_rows));
  prefix.k.resize(static_cast<size_t>(length * head.head_dim));
  prefix.v.resize(static_cast<size_t>(length * head.ValueDim()));
  return prefix;
}

std::vector<std::vector<HeadStatistics>> StatisticsOfAll(const FigureInput& input, bool with_agreement) {
  StatisticsOptions options;
  options.max_rows = input.max_rows;
  options.num_threads = 1;
  options.stop = input.stop;
  options.classes = input.classes;
  if (with_agreement) {
    options.agreement_k = {8, 16, 32, 64, 128, 256};
    options.agreement_r = {4, 8, 16, 32, 64};
  } else {
    options.agreement_r = {};
  }
  std::vector<std::vector<HeadStatistics>> results;
  for (const FigureTrace& trace : input.traces) results.emplace_back(trace.heads.size());
  ForEachHead(input, [&](size_t trace, size_t head, const HeadTensorsPtr& tensors) {
    results[trace][head] = ComputeStatistics(*tensors, options);
  });
  return results;
}

std::vector<int32_t> LayersOf(const FigureTrace& trace) {
  std::set<int32_t> layers;
  for (const HeadId& head : trace.heads) layers.insert(head.layer);
  return {layers.begin(), layers.end()};
}

double MeanOfNumbers(const std::vector<double>& values) {
  double sum = 0;
  int64_t count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

FigureSeries MeanByLayer(const FigureTrace& trace, const std::function<double(size_t head)>& value) {
  FigureSeries series{trace.name, {}, {}};
  for (const int32_t layer : LayersOf(trace)) {
    std::vector<double> values;
    for (size_t head = 0; head < trace.heads.size(); ++head) {
      if (trace.heads[head].layer == layer) values.push_back(value(head));
    }
    series.x.push_back(layer);
    series.y.push_back(MeanOfNumbers(values));
  }
  return series;
}

FigureSeries PartOfTrace(const FigureInput& input, size_t trace, const std::string& part) {
  FigureSeries series{part, {}, {}};
  if (input.traces.size() == 1) return series;
  series.part = part;
  series.trace = input.traces[trace].name;
  series.name = series.trace + ", " + part;
  return series;
}

FigurePanel HeadsAsHeat(const FigureTrace& trace, const std::string& title, const std::string& value_title,
                        const std::function<double(size_t head)>& value) {
  FigurePanel panel;
  panel.title = title;
  panel.kind = FigureKind::kHeat;
  panel.x.title = "head";
  panel.y.title = "layer";
  panel.value.title = value_title;
  std::set<int32_t> columns;
  for (const HeadId& head : trace.heads) columns.insert(head.head);
  for (const int32_t column : columns) panel.categories.push_back(std::to_string(column));
  for (const int32_t layer : LayersOf(trace)) {
    FigureSeries row{std::to_string(layer), {}, {}};
    for (const int32_t column : columns) {
      const auto at = std::find(trace.heads.begin(), trace.heads.end(), HeadId{layer, column});
      row.y.push_back(at == trace.heads.end() ? std::numeric_limits<double>::quiet_NaN()
                                              : value(static_cast<size_t>(at - trace.heads.begin())));
    }
    panel.series.push_back(std::move(row));
  }
  return panel;
}

FigureSeries Histogram(const std::string& name, const std::vector<double>& values, double least, double most,
                       int32_t bins) {
  FigureSeries series{name, {}, std::vector<double>(static_cast<size_t>(bins))};
  for (int32_t bin = 0; bin < bins; ++bin) series.x.push_back(least + (most - least) * (bin + 0.5) / bins);
  for (const double value : values) {
    if (std::isnan(value)) continue;
    const auto bin = static_cast<int32_t>(std::floor((value - least) / (most - least) * bins));
    series.y[static_cast<size_t>(std::clamp(bin, 0, bins - 1))] += 1 / static_cast<double>(values.size());
  }
  return series;
}

void ShareValueRange(std::vector<FigurePanel>* panels) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const FigurePanel& panel : *panels) {
    if (panel.kind != FigureKind::kHeat) continue;
    for (const FigureSeries& row : panel.series) {
      for (const double value : row.y) {
        if (!std::isfinite(value)) continue;
        least = std::min(least, value);
        most = std::max(most, value);
      }
    }
  }
  if (!(least < most)) return;
  for (FigurePanel& panel : *panels) {
    if (panel.kind != FigureKind::kHeat) continue;
    panel.value.minimum = least;
    panel.value.maximum = most;
  }
}

std::string Digits(double value, int digits) {
  return FormatNumber(("%." + std::to_string(digits) + "f").c_str(), value);
}

std::string OfTraces(const FigureInput& input, const std::function<std::string(size_t trace)>& text) {
  if (input.traces.size() == 1) return text(0);
  std::string all;
  for (size_t trace = 0; trace < input.traces.size(); ++trace)
    all += (trace == 0 ? "" : ", ") + text(trace) + " (" + input.traces[trace].name + ")";
  return all;
}

std::string DigitsOfTraces(const FigureInput& input, const std::function<double(size_t trace)>& value, int digits) {
  return OfTraces(input, [&](size_t trace) { return Digits(value(trace), digits); });
}

std::vector<int32_t> LargestIndices(std::span<const float> values, int32_t k) {
  TopColumns top;
  std::vector<int32_t> indices = top.Select(values.data(), static_cast<int64_t>(values.size()), k);
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::vector<int32_t> LargestIndices(const std::vector<double>& values, int64_t k) {
  std::vector<int32_t> indices(values.size());
  std::iota(indices.begin(), indices.end(), 0);
  const auto kept = static_cast<std::ptrdiff_t>(std::min(k, static_cast<int64_t>(values.size())));
  std::partial_sort(indices.begin(), indices.begin() + kept, indices.end(), [&values](int32_t a, int32_t b) {
    const double of_a = values[static_cast<size_t>(a)], of_b = values[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  indices.resize(static_cast<size_t>(kept));
  std::sort(indices.begin(), indices.end());
  return indices;
}

double SharedPart(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  std::vector<int32_t> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return static_cast<double>(common.size()) / static_cast<double>(a.size());
}

}  // namespace headscope::analysis
