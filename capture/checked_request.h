// SPDX-License-Identifier: Apache-2.0
// A capture's request, checked as far as it can be before a weight is read.
#pragma once

#include <cstdint>
#include <optional>

#include "base/output_claim.h"
#include "base/row_selection.h"
#include "capture/capture.h"
#include "capture_prompt.h"
#include "data/trace_schema.h"
#include "model/model_session.h"
#include "one_capture.h"
#include "trace_target.h"

namespace headscope::capture {

// The model's options that a request gives.
model::SessionOptions SessionOf(const CaptureRequest& request);

// All that is refused before a weight is read: before a file is made, and what config.json, tokenizer.json and the free
// space decide.
class CheckedRequest {
 public:
  enum class For { kWriting, kEstimate };
  // Fills in_use with configuration and tokenizer where it has none. Throws BadInputError, FailedError, UsageError.
  CheckedRequest(const CaptureRequest& request, ModelInUse* in_use, For what = For::kWriting);

  const RowSelection& rows() const { return rows_; }
  const TraceTarget& target() const { return *target_; }  // of one for writing
  const Prompt& prompt() const { return prompt_; }
  int64_t num_prompt_tokens() const { return static_cast<int64_t>(prompt_.tokens.size()); }
  int64_t num_rows() const { return num_rows_; }
  int64_t bytes() const { return bytes_; }
  std::optional<int32_t> last_layer() const { return last_layer_; }
  data::TraceLayout& layout() { return layout_; }

 private:
  RowSelection rows_;
  std::optional<OutputClaim> claim_;
  std::optional<TraceTarget> target_;
  Prompt prompt_;
  data::TraceLayout layout_;
  int64_t num_rows_ = 0;
  int64_t bytes_ = 0;
  std::optional<int32_t> last_layer_;
};

}  // namespace headscope::capture
