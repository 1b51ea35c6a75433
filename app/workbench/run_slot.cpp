#include "run_slot.h"

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

Status RunSlot::RunOn(const std::string& device, const std::string& method, const kernels::ParameterValues& values,
                      analysis::MethodResult* result) {
  std::unique_ptr<analysis::HeadComparison>& comparison = comparisons_[device];
  if (!comparison) {
    analysis::CompareOptions options;
    options.repeats = repeats_;
    options.device = device;
    options.cancelled = &stop_;
    comparison = std::make_unique<analysis::HeadComparison>(head_, options);
  }
  return comparison->Run(method, values, result);
}

Status RunSlot::Run(const analysis::HeadTensorsPtr& head, int32_t repeats, const std::string& method,
                    const kernels::ParameterValues& values, const std::atomic<bool>& cancelled,
                    analysis::MethodResult* result) {
  const std::lock_guard lock(mutex_);
  // Callers set their flag before they call Stop(), so one that was cancelled while it waited here is seen by the
  // second line.
  stop_ = false;
  if (cancelled) return {StatusCode::kCancelled, "The run was cancelled."};
  if (head_ != head || repeats_ != repeats) {
    comparisons_.clear();
    head_ = head;
    repeats_ = repeats;
  }
  if (head->gpu == nullptr) return RunOn("cpu", method, values, result);
  const Status on_gpu = RunOn("cuda", method, values, result);
  if (!IsLeftToTheCpu(on_gpu)) return on_gpu;
  Status status = RunOn("cpu", method, values, result);
  if (status.ok()) result->note = method + " ran on the CPU: " + on_gpu.message();
  return status;
}

void RunSlot::Forget() {
  const std::lock_guard lock(mutex_);
  comparisons_.clear();
  head_.reset();
}

}  // namespace headscope::app
