// SPDX-License-Identifier: Apache-2.0
// What a capture will take, before it starts: the prompt's true token count, and at least how long the model runs.
#pragma once

#include <vector>

#include "capture/capture.h"
#include "support/capture_time.h"
#include "ui/workbench.h"

namespace headscope::app {

// model::kCapturePoints, as the window lists them.
std::vector<ui::Recordable> RecordableByCaptures();

// What a model folder would record, from its configuration and the headers of its weights. Throws as
// model::ReadCheckpointSummary.
ui::ModelDescription DescribeCheckpoint(const std::string& model_dir);

// What a capture that is planned so holds and takes, into `estimate`; `seconds` where all of the model runs on the
// device of its first layer, or on `asked` where layers are not placed by memory.
void SetCost(const capture::CapturePlan& plan, const Device& asked, int64_t model_bytes, double seconds,
             ui::CaptureEstimate* estimate);

class CaptureEstimator {
 public:
  // Tokenizes the prompt. Any thread. Throws BadInputError, UsageError, DeviceError.
  ui::CaptureEstimate Estimate(const ui::CaptureSettings& settings);

 private:
  CaptureTime time_;
};

}  // namespace headscope::app
