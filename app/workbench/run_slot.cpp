// SPDX-License-Identifier: Apache-2.0
#include "run_slot.h"

#include <utility>
#include <vector>

#include "base/device.h"
#include "kernels/method_names.h"

namespace headscope::app {

using kernels::Status;
using kernels::StatusCode;

std::unique_ptr<analysis::LayerComparison> RunSlot::MakeComparison(const Device& device) {
  analysis::CompareOptions options;
  options.repeats = settings_.repeats;
  options.least_ms = settings_.least_ms;
  options.decode_rows = settings_.decode_rows;
  options.device = device;
  if (!device.is_gpu()) options.other_dense = settings_.other_dense;
  // A comparison may outlive this run; each run has its own listener.
  options.progress = [this](const analysis::RepeatProgress& progress) {
    if (settings_.report) settings_.report(progress);
  };
  if (measured_ == nullptr)
    measured_ = settings_.alone || !settings_.layer_of ? analysis::AloneHead(head_) : settings_.layer_of(head_);
  return std::make_unique<analysis::LayerComparison>(measured_, options);
}

Status RunSlot::RunOn(const Device& device, const std::string& method, const kernels::ParameterValues& values,
                      std::vector<analysis::MethodResult>* results) {
  const std::vector<analysis::AskedMethod> asked = {{method, values}};
  if (kernels::FindMethod(method).decode != nullptr) {
    const std::unique_ptr<analysis::LayerComparison> comparison = MakeComparison(device);
    comparison->StopBy(stop_);
    return comparison->Run(asked, {head_->id}, results);
  }
  std::unique_ptr<analysis::LayerComparison>& comparison = prefill_comparisons_[device];
  if (!comparison) comparison = MakeComparison(device);
  comparison->StopBy(stop_);
  return comparison->Run(asked, {head_->id}, results);
}

Status RunSlot::Run(const analysis::HeadTensorsPtr& head, const RunSettings& settings, const std::string& method,
                    const kernels::ParameterValues& values, const std::stop_token& stop,
                    analysis::MethodResult* result) {
  const std::lock_guard lock(mutex_);
  if (stop.stop_requested()) return {StatusCode::kCancelled, "The run was cancelled."};
  if (head_ != head || settings_.alone != settings.alone) measured_.reset();
  if (head_ != head || settings_.alone != settings.alone || settings_.repeats != settings.repeats ||
      settings_.least_ms != settings.least_ms || settings_.decode_rows != settings.decode_rows) {
    prefill_comparisons_.clear();
    head_ = head;
  }
  settings_ = settings;
  stop_ = stop;
  std::vector<Device> devices = {kCpu};
  if (head_->gpu != nullptr) devices.insert(devices.begin(), CudaDevice(0));
  std::vector<analysis::MethodResult> results;
  const Status status = analysis::RunOnFirstDevice(
      devices,
      [&](const Device& device, std::vector<analysis::MethodResult>* made) {
        return RunOn(device, method, values, made);
      },
      &results);
  if (status.ok()) *result = std::move(results.front());
  settings_.report = nullptr;  // the listener and the trace may be gone before the next run
  settings_.layer_of = nullptr;
  return status;
}

void RunSlot::Forget() {
  const std::lock_guard lock(mutex_);
  prefill_comparisons_.clear();
  measured_.reset();
  head_.reset();
}

}  // namespace headscope::app
