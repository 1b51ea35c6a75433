// SPDX-License-Identifier: Apache-2.0
// The token positions of a trace's query rows.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::data {

// Whether the rows are tokens one after the other, as --rows all and --rows last:N record them; true of no rows. Takes
// strictly increasing positions (TraceReader::row_positions): the ends then decide.
inline bool RowsContiguous(const std::vector<int32_t>& row_positions) {
  return row_positions.empty() ||
         int64_t{row_positions.back()} - row_positions.front() == static_cast<int64_t>(row_positions.size()) - 1;
}

}  // namespace headscope::data
