#include "run_slot.h"

namespace headscope::app {

kernels::Status RunSlot::Run(const analysis::HeadTensorsPtr& head, int32_t repeats, const std::string& method,
                             const kernels::ParameterValues& values, const std::atomic<bool>& cancelled,
                             analysis::MethodResult* result) {
  const std::lock_guard lock(mutex_);
  // Callers set their flag before they call Stop(), so one that was cancelled while it waited here is seen by the
  // second line.
  stop_ = false;
  if (cancelled) return {kernels::StatusCode::kCancelled, "The run was cancelled."};
  if (!comparison_ || head_ != head || repeats_ != repeats) {
    analysis::CompareOptions options;
    options.repeats = repeats;
    options.cancelled = &stop_;
    comparison_ = std::make_unique<analysis::HeadComparison>(head, options);
    head_ = head;
    repeats_ = repeats;
  }
  kernels::Status status = comparison_->Run(method, values, result);
  // A baseline that was measured half-way must not be kept.
  if (!status.ok()) comparison_.reset();
  return status;
}

void RunSlot::Forget() {
  const std::lock_guard lock(mutex_);
  comparison_.reset();
  head_.reset();
}

}  // namespace headscope::app
