// SPDX-License-Identifier: Apache-2.0
// At least how long a capture's model runs, before it starts: from what this machine computes and copies in a second.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/device.h"
#include "support/capture_cost.h"

namespace headscope::app {

class CaptureTime {
 public:
  // Seconds that the model takes at least for what `cost` says, in numbers of that size; 0 where no estimate is made (a
  // GPU, whose enqueueing of work is no measure of it). Measures the machine the first time, a fraction of a second.
  // Any thread; one call at a time does its work. Throws DeviceError.
  double About(const CaptureCost& cost, int64_t number_bytes, const Device& device);

 private:
  struct Rates {
    double operations = 0, bytes = 0;  // a second
  };
  Rates RatesOf(ElementType dtype, const Device& device);

  std::mutex mutex_;
  std::map<std::string, Rates> rates_;  // by device and type of numbers
};

}  // namespace headscope::app
