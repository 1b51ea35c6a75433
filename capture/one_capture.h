// SPDX-License-Identifier: Apache-2.0
// A capture of a model that may have been loaded for the one before.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "model/model_config.h"
#include "model/tokenizer.h"
#include "model/transformer.h"

namespace headscope::capture {

// What errors name as the file where there is none.
inline constexpr const char* kPromptItself = "the prompt";

// Of one folder and one set of options; filled as it is needed.
struct ModelInUse {
  std::optional<model::ModelConfig> config;
  std::optional<model::Tokenizer> tokenizer;  // none of a prompt of ids whose tokenizer cannot be read
  std::string why_no_texts;                   // in a sentence, of such a one
  std::unique_ptr<model::Transformer> transformer;
  int64_t most_tokens = 0;            // of the longest prompt that was planned, and what is generated
  std::optional<int32_t> last_layer;  // of the prompts that were planned, as a CapturePlan's: the options decide it
  model::Placement placement;         // of a model whose layers were placed by memory
  std::string weights_sha256;
};

// Where the layers lie of a request that places them by memory, for so many tokens and a CapturePlan's `last_layer`;
// else empty. Throws DeviceError, UsageError where a method would compute on several devices.
model::Placement PlaceLayers(const CaptureRequest& request, int64_t tokens, std::optional<int32_t> last_layer);

// What a capture will record; refuses what it refuses before it reads a weight.
CapturePlan PlanWith(const CaptureRequest& request, ModelInUse* in_use);
// As Capture(), but that a request to stop before the model is loaded throws CancelledError.
CaptureResult CaptureWith(const CaptureRequest& request, ModelInUse* in_use, const ProgressFunction& progress,
                          const std::stop_token& stop);

}  // namespace headscope::capture
