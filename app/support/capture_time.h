// SPDX-License-Identifier: Apache-2.0
// At least how long a capture's model runs, before it starts: from what this machine computes and copies in a second.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/device.h"
#include "model/model_session.h"

namespace headscope::app {

class CaptureTime {
 public:
  // Seconds that the prompt and the decode steps behind it take at least; 0 where no estimate is made (a GPU, whose
  // enqueueing of work is no measure of it). Measures the machine the first time, a fraction of a second. Any thread;
  // one call at a time does its work. Throws DeviceError.
  double About(const model::CheckpointSummary& model, int64_t prompt_tokens, int64_t decode_tokens,
               const Device& device);

 private:
  struct Rates {
    double operations = 0, bytes = 0;  // a second
  };
  Rates RatesOf(const Device& device);

  std::mutex mutex_;
  std::map<std::string, Rates> rates_;  // by device
};

}  // namespace headscope::app
