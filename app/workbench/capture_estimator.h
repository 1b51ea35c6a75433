// SPDX-License-Identifier: Apache-2.0
// What a capture will take, before it starts: the prompt's true token count, and at least how long the model runs.
#pragma once

#include <vector>

#include "support/capture_time.h"
#include "ui/workbench.h"

namespace headscope::app {

// model::kCapturePoints, as the window lists them.
std::vector<ui::Recordable> RecordableByCaptures();

// What a model folder would record, from its configuration and the headers of its weights. Throws as
// model::ReadCheckpointSummary.
ui::ModelDescription DescribeCheckpoint(const std::string& model_dir);

class CaptureEstimator {
 public:
  // Tokenizes the prompt. Any thread. Throws BadInputError, UsageError, DeviceError.
  ui::CaptureEstimate Estimate(const ui::CaptureSettings& settings);

 private:
  CaptureTime time_;
};

}  // namespace headscope::app
