// SPDX-License-Identifier: Apache-2.0
// Measured runs, one at a time: of the head's whole layer, or of the head alone. What is measured stays while the head
// stays the same, with the dense baseline of its prefill (analysis::Measurement).
//
// A head that lies on the GPU runs there; what the GPU does not take runs on the CPU, and the result's note says why.
// Any other head runs on the CPU, which computes with its own numbers.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/head_sweeps.h"
#include "base/device.h"

namespace headscope::app {

struct RunSettings {
  // What is timed, made when it is first needed on a head; empty: the head alone.
  std::function<analysis::MeasuredHeadsPtr(const analysis::HeadTensorsPtr&)> layer_of;
  bool alone = true;  // the head alone, whatever layer_of says
  // The same with the lower layers whose choices the method takes, or the same; empty: it takes none.
  std::function<analysis::MeasuredHeadsPtr(analysis::MeasuredHeadsPtr)> with_lower_layers;
  // Of these, device, stop and progress are the run's own.
  analysis::CompareOptions options = {.repeats = 1, .decode_rows = 1};
  std::function<void(const analysis::RepeatProgress&)> report;  // on the caller's thread; may be empty
};

class RunSlot {
 public:
  // Called from workers; waits for the run before.
  kernels::Status Run(const analysis::HeadTensorsPtr& head, const RunSettings& settings, const std::string& method,
                      const kernels::ParameterValues& values, const std::stop_token& stop,
                      analysis::MethodResult* result);
  void Forget();  // frees the head and its baseline

 private:
  std::mutex mutex_;
  // Of the last run.
  analysis::HeadTensorsPtr head_;
  bool alone_ = true;
  analysis::CompareOptions options_;
  analysis::MeasuredHeadsPtr measured_;  // of head_; null until needed
  std::unique_ptr<analysis::Measurement> measurement_;
};

}  // namespace headscope::app
