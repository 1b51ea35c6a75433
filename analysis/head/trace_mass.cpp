// SPDX-License-Identifier: Apache-2.0
// How much of every row's attention mass is in the trace, and whether the recorded log-sum-exp can be believed.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/types/number_text.h"
#include "analysis/types/rounding.h"
#include "base/errors.h"
#include "base/stop.h"
#include "head/head_checks.h"
#include "kernels/cpu_scores.h"
#include "kernels/cuda_statistics.h"
#include "kernels/parallel.h"

namespace headscope::analysis {
namespace {

// Rows and columns of one ScoreBlock call.
constexpr int64_t kCutRows = 32;
constexpr int64_t kCutColumns = 1024;
constexpr int64_t kLseRows = 4;

// Relative error of one value of q or k, twice what rounding to nearest makes.
double RelativeError(ElementType encoding) {
  switch (encoding) {
    case ElementType::kBFloat16:
      return 0x1p-8;
    case ElementType::kFloat16:
      return 0x1p-11;
    case ElementType::kFloat32:
      break;
  }
  return 0x1p-20;  // and room for the order of fp32 sums
}

struct CheckedRow {
  double lse = 0;        // over the keys that are there
  double tolerance = 0;  // how far rounding of q and k may have taken the recorded one from it
};

CheckedRow Check(const HeadTensors& head, int64_t row, ElementType encoding) {
  const kernels::ColumnRange attended = head.AttendedColumns(row);
  std::vector<double> scores;
  double largest_terms = 0;
  const float* q = head.q.data() + row * head.head_dim;
  for (int64_t column = attended.begin; column < attended.end; ++column) {
    const float* k = head.k.data() + column * head.head_dim;
    double dot = 0, terms = 0;
    for (int32_t i = 0; i < head.head_dim; ++i) {
      const double term = static_cast<double>(q[i]) * static_cast<double>(k[i]);
      dot += term;
      terms += std::fabs(term);
    }
    const auto scale = static_cast<double>(head.scale), cap = static_cast<double>(head.soft_cap);
    scores.push_back(cap > 0 ? cap * std::tanh(dot * scale / cap) : dot * scale);
    largest_terms = std::max(largest_terms, terms * scale);
  }
  if (head.sink) scores.push_back(static_cast<double>(*head.sink));
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  return {largest + std::log(sum), 0.01 + 2 * RelativeError(encoding) * largest_terms};
}

double Norm(const float* vector, int32_t head_dim) {
  double sum = 0;
  for (int32_t i = 0; i < head_dim; ++i) sum += static_cast<double>(vector[i]) * static_cast<double>(vector[i]);
  return std::sqrt(sum);
}

// The first row whose log-sum-exp cannot be that of its keys, whatever the rest of them are: below the score of its
// first or its last one, or above what the longest key could give to every one of them. -1: none. It looks at all rows
// and costs no pass over their scores.
int64_t FirstImpossibleRow(const HeadTensors& head, ElementType encoding) {
  double longest_key = 0;
  for (int64_t token = 0; token < head.num_tokens; ++token)
    longest_key = std::max(longest_key, Norm(head.k.data() + token * head.head_dim, head.head_dim));
  const auto scale = static_cast<double>(head.scale), cap = static_cast<double>(head.soft_cap);
  const double sink = head.sink ? static_cast<double>(*head.sink) : -std::numeric_limits<double>::infinity();
  for (int64_t row = 0; row < head.num_rows; ++row) {
    const kernels::ColumnRange attended = head.AttendedColumns(row);
    if (attended.begin >= attended.end) continue;
    const float* const q = head.q.data() + row * head.head_dim;
    const double largest = Norm(q, head.head_dim) * longest_key * std::fabs(scale);
    const double tolerance = 0.01 + 2 * RelativeError(encoding) * largest;
    double least = sink;
    for (const int64_t column : {int64_t{attended.begin}, int64_t{attended.end} - 1}) {
      const float* const k = head.k.data() + column * head.head_dim;
      const double dot = std::inner_product(q, q + head.head_dim, k, 0.0, std::plus<>(), [](float a, float b) {
        return static_cast<double>(a) * static_cast<double>(b);
      });
      least = std::max(least, cap > 0 ? cap * std::tanh(dot * scale / cap) : dot * scale);
    }
    const auto lse = static_cast<double>(head.lse[static_cast<size_t>(row)]);
    const double most = std::max(cap > 0 ? std::min(cap, largest) : largest, sink) +
                        std::log(static_cast<double>(int64_t{attended.end} - attended.begin + (head.sink ? 1 : 0)));
    if (!(lse >= least - tolerance) || (head.SeesAllItsKeys(row) && !(lse <= most + tolerance))) return row;
  }
  return -1;
}

// Of the first num_cut rows; false when the GPU fails.
bool MassOnGpu(const HeadTensors& head, int64_t num_cut, std::vector<double>* mass) {
  std::vector<float> lse(static_cast<size_t>(head.num_rows));
  if (!head.gpu->RowLse(lse.data()).ok()) return false;
  for (size_t row = 0; row < static_cast<size_t>(num_cut); ++row)
    (*mass)[row] = RoundedShare(std::exp(static_cast<double>(lse[row]) - static_cast<double>(head.lse[row])));
  return true;
}

}  // namespace

std::vector<double> MassInTrace(const HeadTensors& head, int32_t num_threads, const std::stop_token& stop) {
  std::vector<double> mass(static_cast<size_t>(head.num_rows), 1.0);
  for (size_t row = 0; head.sink && row < mass.size(); ++row) {
    mass[row] = RoundedShare(1.0 - head.SinkMass(static_cast<int64_t>(row)));
  }
  // Rows ascend, and so do the first keys of those in a window: the rows that lack keys come first.
  int64_t num_cut = 0;
  while (num_cut < head.num_rows && !head.SeesAllItsKeys(num_cut)) ++num_cut;
  if (num_cut == 0) return mass;
  if (head.gpu != nullptr && MassOnGpu(head, num_cut, &mass)) return mass;
  const kernels::PackedKeys keys(head.k.data(), kernels::DType::kFloat32, head.head_dim,
                                 static_cast<int32_t>(head.num_tokens), head.head_dim);
  const int64_t steps = (num_cut + kCutRows - 1) / kCutRows;
  std::vector<std::vector<float>> scores(static_cast<size_t>(kernels::NumWorkers(num_threads, steps)),
                                         std::vector<float>(kCutRows * kCutColumns));
  const bool all = kernels::ParallelFor(steps, num_threads, stop, [&](int64_t step, int32_t worker) {
    const int64_t row_begin = (steps - 1 - step) * kCutRows;  // the longest rows first
    const int64_t row_end = std::min(row_begin + kCutRows, num_cut);
    float* const buffer = scores[static_cast<size_t>(worker)].data();
    std::fill(mass.begin() + row_begin, mass.begin() + row_end, 0.0);
    const int64_t last = head.AttendedColumns(row_end - 1).end;
    for (int64_t begin = head.AttendedColumns(row_begin).begin; begin < last; begin += kCutColumns) {
      const int64_t end = std::min(begin + kCutColumns, last);
      kernels::ScoreBlock(head.q.data() + row_begin * head.head_dim, head.head_dim,
                          static_cast<int32_t>(row_end - row_begin), keys, static_cast<int32_t>(begin),
                          static_cast<int32_t>(end), head.scale, head.soft_cap, buffer, kCutColumns);
      for (int64_t row = row_begin; row < row_end; ++row) {
        const kernels::ColumnRange attended = head.AttendedColumns(row);
        const int64_t from = std::max<int64_t>(begin, attended.begin);
        const int64_t count = std::min<int64_t>(end, attended.end) - from;
        if (count <= 0) continue;
        mass[static_cast<size_t>(row)] += static_cast<double>(kernels::ExpInPlace(
            buffer + (row - row_begin) * kCutColumns + (from - begin), count, head.lse[static_cast<size_t>(row)]));
      }
    }
  });
  StopUnless(all);
  for (size_t row = 0; row < static_cast<size_t>(num_cut); ++row) mass[row] = RoundedShare(mass[row]);
  return mass;
}

std::string DescribeWrongLse(const HeadTensors& head, const data::TraceReader& trace) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < std::min(kLseRows, head.num_rows); ++i)
    rows.push_back((i + 1) * head.num_rows / std::min(kLseRows, head.num_rows) - 1);
  if (const int64_t impossible = FirstImpossibleRow(head, trace.layout().encoding); impossible >= 0)
    rows.push_back(impossible);
  for (const int64_t row : rows) {
    const CheckedRow checked = Check(head, row, trace.layout().encoding);
    const double beyond = checked.lse - static_cast<double>(head.lse[static_cast<size_t>(row)]);
    if (beyond <= checked.tolerance && (!head.SeesAllItsKeys(row) || -beyond <= checked.tolerance)) continue;
    return trace.path() + ": /attention/lse of head " + HeadName(head.id) + ", row at position " +
           std::to_string(head.row_positions[static_cast<size_t>(row)]) + ", is " +
           FormatNumber("%.4g", static_cast<double>(head.lse[static_cast<size_t>(row)])) +
           ", and the scores of that row's keys give " + FormatNumber("%.4g", checked.lse) +
           ": its probabilities and masses are wrong by that factor; write the natural logarithm of the sum of "
           "exp(softmax_scale * q.k) over all keys that a row sees, and its sink's exp(logit)";
  }
  return {};
}

}  // namespace headscope::analysis
