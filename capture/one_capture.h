// SPDX-License-Identifier: Apache-2.0
// A capture of a model that may have been loaded for the one before.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

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
  std::optional<model::Tokenizer> tokenizer;
  std::unique_ptr<model::Transformer> transformer;
  std::string weights_sha256;
};

// What a capture will record; refuses what it refuses before it reads a weight.
CapturePlan PlanWith(const CaptureRequest& request, ModelInUse* in_use);
// As Capture(), but that a request to stop before the model is loaded throws CancelledError.
CaptureResult CaptureWith(const CaptureRequest& request, ModelInUse* in_use, const ProgressFunction& progress,
                          const std::stop_token& stop);

}  // namespace headscope::capture
