// SPDX-License-Identifier: Apache-2.0
// Measured runs, one at a time: of the head's whole layer, or of the head alone. A long dense baseline of a layer's
// prefill is measured once and kept while the head stays the same (analysis::LayerComparison). That of its decode steps
// is measured anew with every run: it is over in a fraction of a second, and one from a moment when the machine was
// busy would make every later run look fast.
//
// A head that lies on the GPU runs there; what the GPU does not take runs on the CPU, and the result's note says why.
// Any other head runs on the CPU, which computes with its own numbers.
#pragma once

#include <functional>
#include <map>
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
  bool alone = true;        // the head alone, whatever layer_of says
  int32_t repeats = 1;      // at least
  double least_ms = 0;      // as CompareOptions::least_ms
  int32_t decode_rows = 1;  // steps that decode methods are measured on
  // Another dense decode on the CPU: the faster of both is the baseline. Empty: none.
  analysis::OtherDense other_dense;
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
  kernels::Status RunOn(const Device& device, const std::string& method, const kernels::ParameterValues& values,
                        std::vector<analysis::MethodResult>* results);
  std::unique_ptr<analysis::LayerComparison> MakeComparison(const Device& device);

  std::mutex mutex_;
  std::stop_token stop_;  // of the run under way
  analysis::HeadTensorsPtr head_;
  analysis::MeasuredHeadsPtr measured_;  // of head_; null until needed
  RunSettings settings_;
  std::map<Device, std::unique_ptr<analysis::LayerComparison>> prefill_comparisons_;  // by device
};

}  // namespace headscope::app
