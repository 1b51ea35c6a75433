#include "run_slot.h"

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

std::unique_ptr<analysis::HeadComparison> RunSlot::MakeComparison(const std::string& device) {
  analysis::CompareOptions options;
  options.repeats = settings_.repeats;
  options.least_ms = settings_.least_ms;
  options.decode_rows = settings_.decode_rows;
  options.device = device;
  options.cancelled = &stop_;
  // A comparison may outlive this run; each run has its own listener.
  options.progress = [this](const analysis::RepeatProgress& progress) {
    if (settings_.report) settings_.report(progress);
  };
  return std::make_unique<analysis::HeadComparison>(head_, options);
}

Status RunSlot::RunOn(const std::string& device, const std::string& method, const kernels::ParameterValues& values,
                      analysis::MethodResult* result) {
  if (kernels::FindMethod(method).decode != nullptr) return MakeComparison(device)->Run(method, values, result);
  std::unique_ptr<analysis::HeadComparison>& comparison = prefill_comparisons_[device];
  if (!comparison) comparison = MakeComparison(device);
  return comparison->Run(method, values, result);
}

Status RunSlot::Run(const analysis::HeadTensorsPtr& head, const RunSettings& settings, const std::string& method,
                    const kernels::ParameterValues& values, const std::atomic<bool>& cancelled,
                    analysis::MethodResult* result) {
  const std::lock_guard lock(mutex_);
  // Callers set their flag before they call Stop(), so one that was cancelled while it waited here is seen by the
  // second line.
  stop_ = false;
  if (cancelled) return {StatusCode::kCancelled, "The run was cancelled."};
  if (head_ != head || settings_.repeats != settings.repeats || settings_.least_ms != settings.least_ms ||
      settings_.decode_rows != settings.decode_rows) {
    prefill_comparisons_.clear();
    head_ = head;
  }
  settings_ = settings;
  Status status = RunWherePossible(method, values, result);
  settings_.report = nullptr;  // the listener may be gone before the next run
  return status;
}

Status RunSlot::RunWherePossible(const std::string& method, const kernels::ParameterValues& values,
                                 analysis::MethodResult* result) {
  if (head_->gpu == nullptr) return RunOn("cpu", method, values, result);
  Status on_gpu = RunOn("cuda", method, values, result);
  if (!IsLeftToTheCpu(on_gpu)) return on_gpu;
  Status status = RunOn("cpu", method, values, result);
  if (status.ok()) result->note = method + " ran on the CPU: " + on_gpu.message();
  return status;
}

void RunSlot::Forget() {
  const std::lock_guard lock(mutex_);
  prefill_comparisons_.clear();
  head_.reset();
}

}  // namespace headscope::app
