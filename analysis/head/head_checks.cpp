// SPDX-License-Identifier: Apache-2.0
#include "head/head_checks.h"

#include "analysis/prefill_heads.h"
#include "head/read_tensors.h"

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

Status CheckPrefillHeads(const MeasuredHeads& heads, HeadId asked) {
  return CheckPrefillHead(heads, asked);
}

Status CheckPrefillHeads(const data::TraceReader& trace, const std::vector<HeadId>& heads) {
  for (size_t i = 0; i < heads.size(); ++i) {
    if (i > 0 && heads[i].layer == heads[i - 1].layer) continue;
    const HeadFrame frame = ReadFrame(trace, trace.LayerSlot(heads[i].layer));
    if (Status status = CheckPrefillHead(frame, heads[i]); !status.ok()) return status;
  }
  return {};
}

kernels::Status CheckIndex(const HeadTensors& head, const kernels::SparseIndexView& index) {
  if (index.batch != 1 || index.num_qo_heads != 1 || index.seq_q != head.num_rows || index.seq_k != head.num_tokens) {
    return {kernels::StatusCode::kInvalidArgument,
            "the index is of " + std::to_string(index.batch) + " x " + std::to_string(index.num_qo_heads) + " heads, " +
                std::to_string(index.seq_q) + " rows and " + std::to_string(index.seq_k) +
                " columns: this head has 1 x 1, " + std::to_string(head.num_rows) + " and " +
                std::to_string(head.num_tokens)};
  }
  return {};
}

}  // namespace headscope::analysis
