// SPDX-License-Identifier: Apache-2.0
#include "compare/head_union.h"

#include <algorithm>
#include <vector>

#include "analysis/types/number_text.h"
#include "compare/model_window.h"

namespace headscope::analysis {
namespace {

constexpr int32_t kRowStep = 64;

bool ShareOnePattern(const kernels::SparseIndexView& index) {
  for (int32_t head = 1; head < index.num_qo_heads; ++head) {
    if (index.run_begin[index.ListId(0, head, 0)] != index.run_begin[index.ListId(0, 0, 0)]) return false;
  }
  return true;
}

// Columns of at least one range; sorts them.
int64_t CountColumns(std::vector<kernels::ColumnRange>* ranges) {
  std::ranges::sort(*ranges, {}, &kernels::ColumnRange::begin);
  int64_t columns = 0;
  int32_t end = 0;
  for (const kernels::ColumnRange& range : *ranges) {
    columns += std::max(0, range.end - std::max(range.begin, end));
    end = std::max(end, range.end);
  }
  return columns;
}

}  // namespace

std::string IncompleteUnion(const kernels::MethodSpec& spec, const kernels::ParameterValues& values,
                            const MeasuredHeads& heads, const kernels::SparseIndexView& index) {
  if (!spec.IsStatic() || heads.num_qo_heads != heads.heads_of_layer || ShareOnePattern(index) || WindowHides(heads))
    return {};
  int64_t kept = 0, causal = 0;
  std::vector<kernels::ColumnRange> ranges;
  for (int32_t row = 0; row < index.seq_q; row += kRowStep) {
    const int32_t last = std::min(row + kRowStep, index.seq_q) - 1;
    ranges.clear();
    for (int32_t head = 0; head < index.num_qo_heads; ++head) {
      std::vector<kernels::ColumnRange> of_head;
      kernels::AppendKeptRanges(index, 0, head, last, &of_head);
      ranges.insert(ranges.end(), of_head.begin(), of_head.end());
    }
    kept += CountColumns(&ranges);
    causal += int64_t{index.first_position} + last + 1;
  }
  if (kept == causal) return {};
  // Rounded down: 100 % would be complete.
  const int64_t thousandths = kept * 1000 / causal;
  const double percent = static_cast<double>(thousandths) / 10;
  const std::string given = values.Difference(spec, kernels::ParameterValues(spec));
  return spec.name + (given.empty() ? "" : ":" + given) + ": layer " + std::to_string(heads.layer) + "'s " +
         std::to_string(index.num_qo_heads) + " heads together keep " + FormatNumber("%.1f", percent) +
         " % of the causal pairs; the others are kept by no head";
}

}  // namespace headscope::analysis
