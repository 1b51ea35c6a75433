// SPDX-License-Identifier: Apache-2.0
// What a capture records of a model's layers, and what its trace says of them.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/capture.h"
#include "capture_prompt.h"
#include "data/trace_schema.h"
#include "model/model_config.h"

namespace headscope::capture {

struct RecordedHeads {
  std::vector<int32_t> layers;
  std::vector<std::vector<int32_t>> qo_heads;  // of each of them
};

// What of the request depends on the model's sizes alone. Throws UsageError, before any weight is read, for layers and
// heads that the model lacks, and for what it cannot do.
RecordedHeads ChooseRecordedHeads(const CaptureRequest& request, const model::ModelConfig& config);

// All but the hashes of weights and tokenizer.
data::TraceLayout LayoutOfTrace(const CaptureRequest& request, const model::ModelConfig& config, ElementType captured,
                                const RecordedHeads& heads, const Prompt& prompt);

}  // namespace headscope::capture
