// SPDX-License-Identifier: Apache-2.0
// The prompt of a capture, as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "model/model_config.h"
#include "model/tokenizer.h"

namespace headscope::capture {

struct Prompt {
  std::vector<int32_t> tokens;
  std::string source;  // as the trace names it
  std::string answer;  // of a task
  std::vector<int32_t> answer_tokens;
};

// The request's text, file, tokens or task. `tokenizer` may be null where the request gives tokens. Throws UsageError
// for a request that the model has no positions or tokens for, BadInputError for a text that cannot be read.
Prompt ReadPrompt(const CaptureRequest& request, const model::Tokenizer* tokenizer, const model::ModelConfig& config);

// Throws UsageError where the model has too few positions for the prompt and what is decoded.
void RequirePositionsFor(const CaptureRequest& request, const Prompt& prompt, const model::ModelConfig& config);

}  // namespace headscope::capture
