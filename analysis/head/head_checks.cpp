// SPDX-License-Identifier: Apache-2.0
#include "head/head_checks.h"

namespace headscope::analysis {

using kernels::Status;
using kernels::StatusCode;

std::string HeadName(HeadId id) {
  return std::to_string(id.layer) + ":" + std::to_string(id.head);
}

Status CheckPrefillHead(const HeadFrame& frame, HeadId id) {
  if (frame.num_rows == 0)
    return {StatusCode::kUnsupported,
            "head " + HeadName(id) + " has no recorded query rows: capture again and record some"};
  if (frame.chunk > 0) {
    return {StatusCode::kUnsupported, "head " + HeadName(id) + " attends in chunks of " + std::to_string(frame.chunk) +
                                          " tokens, which methods do not support: choose a head of another layer"};
  }
  if (!frame.RowsContiguous()) {
    return {StatusCode::kUnsupported,
            "head " + HeadName(id) + " was recorded with gaps between its query rows (positions " +
                std::to_string(frame.row_positions.front()) + " to " + std::to_string(frame.row_positions.back()) +
                ", " + std::to_string(frame.num_rows) +
                " rows): record all rows, or the last N, to run prefill methods"};
  }
  return {};
}

}  // namespace headscope::analysis
