// SPDX-License-Identifier: Apache-2.0
// A statistic of a whole head that is no mean over its rows: of all its queries, its values, its keys.
//
// A new one is one file in analysis/whole_head that defines a subclass and a function that returns it, and one line in
// analysis/whole_head/head_statistic_list.h. Metrics, files and caches come from there, as with a RowStatistic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

// A head's tensors, fp32, row after row.
struct HeadView {
  int64_t num_rows = 0, num_tokens = 0;
  int32_t head_dim = 0, v_head_dim = 0;
  std::span<const float> q;           // [num_rows, head_dim]
  std::span<const float> q_pre_rope;  // the same before RoPE; empty: not recorded
  std::span<const float> k;           // [num_tokens, head_dim]
  std::span<const float> v;           // [num_tokens, v_head_dim]
};

class HeadStatistic {
 public:
  virtual ~HeadStatistic() = default;
  virtual const MetricInfo& info() const = 0;
  // Any thread. NaN: the head has no such number.
  virtual double OfHead(const HeadView& head) const = 0;
};

// Every one, in the order in which matrix and tables list them.
const std::vector<const HeadStatistic*>& WholeHeadStatistics();

}  // namespace headscope::analysis
