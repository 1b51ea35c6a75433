// SPDX-License-Identifier: Apache-2.0
#include "run_slot.h"

#include <utility>
#include <vector>

#include "base/device.h"
#include "kernels/stop_status.h"

namespace headscope::app {

using kernels::Status;
using kernels::StatusCode;

Status RunSlot::Run(const analysis::HeadTensorsPtr& head, const RunSettings& settings, const std::string& method,
                    const kernels::ParameterValues& values, const std::stop_token& stop,
                    analysis::MethodResult* result) {
  const std::lock_guard lock(mutex_);
  if (stop.stop_requested()) return kernels::Stopped();
  if (head_ != head || alone_ != settings.alone) measured_.reset();
  const analysis::CompareOptions& options = settings.options;
  if (measured_ == nullptr || options.repeats != options_.repeats || options.least_ms != options_.least_ms ||
      options.decode_rows != options_.decode_rows) {
    measurement_.reset();
  }
  head_ = head;
  alone_ = settings.alone;
  options_ = options;
  if (measured_ == nullptr)
    measured_ = settings.alone || !settings.layer_of ? analysis::AloneHead(head) : settings.layer_of(head);
  std::vector<Device> devices = {kCpu};
  if (head->gpu != nullptr) devices.insert(devices.begin(), head->gpu_device.device);
  // Lower layers are held for as long as this run takes.
  const analysis::MeasuredHeadsPtr with_lower =
      settings.with_lower_layers ? settings.with_lower_layers(measured_) : measured_;
  std::unique_ptr<analysis::Measurement> own;
  if (with_lower != measured_) {
    own = std::make_unique<analysis::Measurement>(with_lower, options, devices);
  } else if (measurement_ == nullptr) {
    measurement_ = std::make_unique<analysis::Measurement>(measured_, options, devices);
  }
  analysis::Measurement& measurement = own != nullptr ? *own : *measurement_;
  const auto report = [&](const analysis::RepeatProgress& repeat, double) {
    if (settings.report) settings.report(repeat);
  };
  std::vector<analysis::MethodResult> results;
  const Status status = measurement.Run({{method, values}}, {head->id}, stop, report, &results);
  if (status.ok()) *result = std::move(results.front());
  return status;
}

void RunSlot::Forget() {
  const std::lock_guard lock(mutex_);
  measurement_.reset();
  measured_.reset();
  head_.reset();
}

}  // namespace headscope::app
