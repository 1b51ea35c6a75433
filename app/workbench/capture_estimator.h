// SPDX-License-Identifier: Apache-2.0
// What a capture will take, before it starts: the prompt's true token count, and at least how long the model runs.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ui/workbench.h"

namespace headscope::app {

// model::kCapturePoints, as the window lists them.
std::vector<ui::Recordable> RecordableByCaptures();

class CaptureEstimator {
 public:
  // Tokenizes the prompt and, once a device, measures what this machine computes and copies in a second. Any thread;
  // one call at a time does its work. Throws BadInputError, UsageError, DeviceError.
  ui::CaptureEstimate Estimate(const ui::CaptureSettings& settings);

 private:
  struct Rates {
    double operations = 0, bytes = 0;  // a second
  };
  Rates RatesOf(const Device& device, const std::string& dtype);

  std::mutex mutex_;
  std::map<std::string, Rates> rates_;  // by device and number type
};

}  // namespace headscope::app
