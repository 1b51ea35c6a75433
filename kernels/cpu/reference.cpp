// SPDX-License-Identifier: Apache-2.0
// The naive executors: float64, one row and one key at a time, two passes (maximum, then sums). What everything faster
// is tested against.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "index/checks.h"
#include "internal/element.h"
#include "kernels/cpu_executor.h"
#include "reference_rows.h"

namespace headscope::kernels {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

int64_t Offset(const StridedTensor<const void>& tensor, int64_t sequence, int64_t head, int64_t row) {
  return sequence * tensor.batch_stride + head * tensor.head_stride + row * tensor.row_stride;
}

// What a row's softmax says beside its output, in natural units.
struct RowNumbers {
  double lse = kMinusInfinity;
  double largest = kMinusInfinity;  // score, without the sink
};

// Scores of one query row with listed keys, and the output they give.
class Row {
 public:
  Row(const AttentionProblem& problem, int32_t sequence, int32_t head, int32_t row)
      : problem_(problem),
        sequence_(sequence),
        kv_head_(head / problem.GroupSize()),
        has_sink_(problem.sinks != nullptr),
        sink_(has_sink_ ? static_cast<double>(problem.sinks[head]) : 0) {
    for (int32_t d = 0; d < problem.head_dim; ++d) {
      q_.push_back(internal::LoadElement(problem.q.data, problem.dtype, Offset(problem.q, sequence, head, row) + d));
    }
  }

  // The columns before `end` have these components of their keys alone.
  void KeepComponents(const int32_t* components, int64_t count, int32_t end) {
    components_.assign(components, components + count);
    components_end_ = end;
  }

  double Score(int32_t column) const {
    loaded_.resize(q_.size());
    internal::LoadRow(problem_.k.data, problem_.dtype, Offset(problem_.k, sequence_, kv_head_, column),
                      problem_.head_dim, loaded_.data());
    double dot = 0;
    if (column < components_end_) {
      for (const int32_t d : components_) dot += q_[static_cast<size_t>(d)] * loaded_[static_cast<size_t>(d)];
    } else {
      // Four sums: in one alone each addition waits for the one before.
      std::array<double, 4> parts{};
      size_t d = 0;
      for (; d + parts.size() <= q_.size(); d += parts.size()) {
        for (size_t i = 0; i < parts.size(); ++i) parts[i] += q_[d + i] * loaded_[d + i];
      }
      for (; d < q_.size(); ++d) parts[0] += q_[d] * loaded_[d];
      dot = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    const double scale =
        problem_.scale != 0.0f ? static_cast<double>(problem_.scale) : 1.0 / std::sqrt(static_cast<double>(q_.size()));
    const double cap = problem_.soft_cap;
    return cap > 0 ? cap * std::tanh(scale * dot / cap) : scale * dot;
  }

  // Natural-log LSE over the columns [begin, end), and the sink.
  double LogSumExp(int32_t begin, int32_t end) const {
    std::vector<double> scores;
    double maximum = has_sink_ ? sink_ : kMinusInfinity;
    for (int32_t column = begin; column < end; ++column) {
      scores.push_back(Score(column));
      if (scores.back() > maximum || std::isnan(scores.back())) maximum = scores.back();
    }
    if (maximum == kMinusInfinity) return kMinusInfinity;
    double sum = has_sink_ ? std::exp(sink_ - maximum) : 0;
    for (const double score : scores) sum += std::exp(score - maximum);
    return maximum + std::log(sum);
  }

  // Softmax over the columns, weighted where there are weights, and the sink times V. No column, or none with a score
  // above -inf: zeros, and -inf or the sink. A NaN among the scores makes all of it NaN. A column of weight 0 is none.
  RowNumbers Attend(const std::vector<int32_t>& columns, const float* weights, std::vector<double>* output) const {
    const auto v_head_dim = static_cast<size_t>(problem_.ValueDim());
    output->assign(v_head_dim, 0.0);
    std::vector<double> scores;
    scores.reserve(columns.size());
    double largest = kMinusInfinity;
    for (size_t i = 0; i < columns.size(); ++i) {
      scores.push_back(weights != nullptr && weights[i] == 0 ? kMinusInfinity : Score(columns[i]));
      if (scores.back() > largest || std::isnan(scores.back())) largest = scores.back();
    }
    const double maximum = has_sink_ && sink_ > largest ? sink_ : largest;
    if (maximum == kMinusInfinity) return {};
    double sum = has_sink_ ? std::exp(sink_ - maximum) : 0;
    loaded_.resize(v_head_dim);
    for (size_t i = 0; i < columns.size(); ++i) {
      if (weights != nullptr && weights[i] == 0) continue;
      const double weight =
          std::exp(scores[i] - maximum) * (weights != nullptr ? static_cast<double>(weights[i]) : 1.0);
      internal::LoadRow(problem_.v.data, problem_.dtype, Offset(problem_.v, sequence_, kv_head_, columns[i]),
                        problem_.ValueDim(), loaded_.data());
      sum += weight;
      for (size_t d = 0; d < v_head_dim; ++d) (*output)[d] += weight * loaded_[d];
    }
    for (double& element : *output) element /= sum;
    return {maximum + std::log(sum), largest};
  }

 private:
  const AttentionProblem& problem_;
  int64_t sequence_;
  int64_t kv_head_;
  bool has_sink_;
  double sink_;
  std::vector<double> q_;
  std::vector<int32_t> components_;
  int32_t components_end_ = 0;
  mutable std::vector<float> loaded_;  // a key or a value
};

// Page by page: the columns that a list names.
std::vector<int32_t> ColumnsOf(const AttentionProblem& problem, const DecodeSelection& selection, size_t list) {
  std::vector<int32_t> columns;
  for (int64_t i = selection.page_begin[list]; i < selection.page_begin[list + 1]; ++i) {
    for (int32_t t = 0; t < selection.page_size; ++t) {
      const int64_t column = int64_t{selection.pages[static_cast<size_t>(i)]} * selection.page_size + t;
      if (column < problem.seq_k) columns.push_back(static_cast<int32_t>(column));
    }
  }
  return columns;
}

// Whether the problem's window lets a row see a column.
bool Sees(const AttentionProblem& problem, int32_t row, int32_t column) {
  return problem.window == 0 || int64_t{problem.first_position} + row - column < problem.window;
}

void Store(const AttentionProblem& problem, int32_t sequence, int32_t head, int32_t row,
           const std::vector<double>& values, const RowNumbers& numbers, const AttentionOutput& output) {
  float* const o = static_cast<float*>(output.o.data) + sequence * output.o.batch_stride + head * output.o.head_stride +
                   row * output.o.row_stride;
  for (size_t d = 0; d < values.size(); ++d) o[d] = static_cast<float>(values[d]);
  const int64_t at = (int64_t{sequence} * problem.num_qo_heads + head) * problem.seq_q + row;
  if (output.lse != nullptr) output.lse[at] = static_cast<float>(numbers.lse);
  if (output.row_max != nullptr) output.row_max[at] = static_cast<float>(numbers.largest);
}

}  // namespace

void AttendRow(const AttentionProblem& problem, const SparseIndexView& index, int32_t sequence, int32_t head,
               int32_t row, const AttentionOutput& output) {
  std::vector<ColumnRange> ranges;
  AppendKeptRanges(index, sequence, head, row, &ranges);
  std::vector<int32_t> columns;
  for (const ColumnRange& range : ranges) {
    for (int32_t column = range.begin; column < range.end; ++column) {
      if (Sees(problem, row, column)) columns.push_back(column);
    }
  }
  std::vector<double> values;
  const RowNumbers numbers = Row(problem, sequence, head, row).Attend(columns, nullptr, &values);
  Store(problem, sequence, head, row, values, numbers, output);
}

void DecodeHead(const AttentionProblem& problem, const DecodeSelection& selection, int32_t sequence, int32_t head,
                const AttentionOutput& output) {
  const size_t list = static_cast<size_t>(sequence) * static_cast<size_t>(problem.num_kv_heads) +
                      static_cast<size_t>(head / problem.GroupSize());
  const int64_t first = selection.page_begin[list] * selection.page_size;
  const int64_t row_length = static_cast<int64_t>(selection.pages.size()) * selection.page_size;
  const int64_t weight_row = selection.weight_rows == 1 ? 0 : head % problem.GroupSize();
  const float* const weights =
      selection.weights.empty() ? nullptr : selection.weights.data() + weight_row * row_length + first;
  const std::vector<int32_t> columns = ColumnsOf(problem, selection, list);
  std::vector<float> seen(columns.size(), 1.0f);
  for (size_t i = 0; i < columns.size(); ++i) {
    if (weights != nullptr) seen[i] = weights[i];
    if (!Sees(problem, 0, columns[i])) seen[i] = 0;
  }
  Row row(problem, sequence, head, 0);
  if (selection.components_end > 0) {
    const int64_t begin = selection.component_begin[list];
    row.KeepComponents(selection.components.data() + begin, selection.component_begin[list + 1] - begin,
                       selection.components_end);
  }
  std::vector<double> values;
  const RowNumbers numbers = row.Attend(columns, seen.data(), &values);
  if (!selection.alpha.empty()) {
    const double alpha = selection.alpha[static_cast<size_t>(sequence) * static_cast<size_t>(problem.num_qo_heads) +
                                         static_cast<size_t>(head)];
    const size_t mean = list * static_cast<size_t>(problem.ValueDim());
    for (size_t d = 0; d < values.size(); ++d) {
      values[d] = alpha * values[d] + (1 - alpha) * selection.mean_value[mean + d];
    }
  }
  Store(problem, sequence, head, 0, values, numbers, output);
}

float LseOfRow(const AttentionProblem& problem, int32_t sequence, int32_t head, int32_t row, int32_t begin,
               int32_t end) {
  return static_cast<float>(Row(problem, sequence, head, row).LogSumExp(begin, end));
}

Status AttendReference(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output) {
  Status status = internal::CheckIndexOfProblem(problem, index);
  if (status.ok()) status = internal::CheckOutput(problem, output);
  if (!status.ok()) return status;
  for (int32_t sequence = 0; sequence < problem.batch; ++sequence) {
    for (int32_t head = 0; head < problem.num_qo_heads; ++head) {
      for (int32_t row = 0; row < problem.seq_q; ++row) AttendRow(problem, index, sequence, head, row, output);
    }
  }
  return {};
}

Status DecodeReference(const AttentionProblem& problem, const DecodeSelection& selection,
                       const AttentionOutput& output) {
  Status status = internal::CheckSelectionOfProblem(problem, selection, /*takes_components=*/true);
  if (status.ok()) status = internal::CheckOutput(problem, output);
  if (!status.ok()) return status;
  for (int32_t sequence = 0; sequence < problem.batch; ++sequence) {
    for (int32_t head = 0; head < problem.num_qo_heads; ++head) DecodeHead(problem, selection, sequence, head, output);
  }
  return {};
}

}  // namespace headscope::kernels
