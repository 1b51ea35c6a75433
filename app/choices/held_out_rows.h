// SPDX-License-Identifier: Apache-2.0
// Rows that nothing is chosen by: settings are found by a trace's other rows, and tried on these.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "base/row_selection.h"
#include "data/trace_reader.h"

namespace headscope::app {

class HeldOutRows {
 public:
  // As base/row_selection.h reads some of the rows; empty: none. Errors (UsageError) are of the field `field`.
  explicit HeldOutRows(const std::string& text = "", const std::string& field = "check-rows");

  bool any() const { return rows_.has_value(); }
  // What analysis::BudgetSearchOptions::judged_rows takes: the rows that are held out, or the others; null where none
  // are held out.
  std::function<std::vector<uint8_t>(const analysis::HeadFrame&)> Judge(bool held_out) const;
  // Throws UsageError where no recorded row of the trace, or every one, is held out, or the trace has no such rows.
  void CheckTrace(const data::TraceReader& trace) const;

 private:
  std::vector<uint8_t> Of(const std::vector<int32_t>& row_positions, int64_t num_tokens, bool held_out) const;

  std::string text_, field_;
  std::optional<RowSelection> rows_;
};

}  // namespace headscope::app
