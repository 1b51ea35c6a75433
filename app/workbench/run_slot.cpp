// SPDX-License-Identifier: Apache-2.0
#include "run_slot.h"

#include <utility>
#include <vector>

#include "kernels/method_names.h"

namespace headscope::app {
namespace {

using kernels::Status;
using kernels::StatusCode;

// What the GPU does not do, the CPU does.
bool IsLeftToTheCpu(const Status& status) {
  return status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kOutOfMemory ||
         status.code() == StatusCode::kDeviceMissing;
}

}  // namespace

std::unique_ptr<analysis::LayerComparison> RunSlot::MakeComparison(const std::string& device) {
  analysis::CompareOptions options;
  options.repeats = settings_.repeats;
  options.least_ms = settings_.least_ms;
  options.decode_rows = settings_.decode_rows;
  options.device = device;
  if (device == "cpu") options.other_dense = settings_.other_dense;
  options.cancelled = &stop_;
  // A comparison may outlive this run; each run has its own listener.
  options.progress = [this](const analysis::RepeatProgress& progress) {
    if (settings_.report) settings_.report(progress);
  };
  if (measured_ == nullptr)
    measured_ = settings_.alone || !settings_.layer_of ? analysis::AloneHead(head_) : settings_.layer_of(head_);
  return std::make_unique<analysis::LayerComparison>(measured_, options);
}

Status RunSlot::RunOn(const std::string& device, const std::string& method, const kernels::ParameterValues& values,
                      analysis::MethodResult* result) {
  const std::vector<analysis::AskedMethod> asked = {{method, values}};
  std::vector<analysis::MethodResult> results;
  Status status;
  if (kernels::FindMethod(method).decode != nullptr) {
    status = MakeComparison(device)->Run(asked, {head_->id}, &results);
  } else {
    std::unique_ptr<analysis::LayerComparison>& comparison = prefill_comparisons_[device];
    if (!comparison) comparison = MakeComparison(device);
    status = comparison->Run(asked, {head_->id}, &results);
  }
  if (status.ok()) *result = std::move(results.front());
  return status;
}

Status RunSlot::Run(const analysis::HeadTensorsPtr& head, const RunSettings& settings, const std::string& method,
                    const kernels::ParameterValues& values, const std::atomic<bool>& cancelled,
                    analysis::MethodResult* result) {
  const std::lock_guard lock(mutex_);
  // Callers set their flag before they call Stop(), so one that was cancelled while it waited here is seen by the
  // second line.
  stop_ = false;
  if (cancelled) return {StatusCode::kCancelled, "The run was cancelled."};
  if (head_ != head || settings_.alone != settings.alone) measured_.reset();
  if (head_ != head || settings_.alone != settings.alone || settings_.repeats != settings.repeats ||
      settings_.least_ms != settings.least_ms || settings_.decode_rows != settings.decode_rows) {
    prefill_comparisons_.clear();
    head_ = head;
  }
  settings_ = settings;
  Status status = RunWherePossible(method, values, result);
  settings_.report = nullptr;  // the listener and the trace may be gone before the next run
  settings_.layer_of = nullptr;
  return status;
}

Status RunSlot::RunWherePossible(const std::string& method, const kernels::ParameterValues& values,
                                 analysis::MethodResult* result) {
  if (head_->gpu == nullptr) return RunOn("cpu", method, values, result);
  Status on_gpu = RunOn("cuda", method, values, result);
  if (!IsLeftToTheCpu(on_gpu)) return on_gpu;
  Status status = RunOn("cpu", method, values, result);
  if (status.ok())
    result->note = method + " ran on the CPU: " + on_gpu.message() + (result->note.empty() ? "" : "; " + result->note);
  return status;
}

void RunSlot::Forget() {
  const std::lock_guard lock(mutex_);
  prefill_comparisons_.clear();
  measured_.reset();
  head_.reset();
}

}  // namespace headscope::app
