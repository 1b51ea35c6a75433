// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "analysis/head_sweeps.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "compare/mask_quality.h"
#include "kernels/method_names.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

bool IsLeftToTheNext(const Status& status) {
  return status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kOutOfMemory ||
         status.code() == StatusCode::kDeviceMissing;
}

}  // namespace

Status RunOnFirstDevice(const std::vector<Device>& devices,
                        const std::function<Status(const Device& device, std::vector<MethodResult>* results)>& run,
                        std::vector<MethodResult>* results) {
  std::string refusal;
  for (size_t i = 0; i < devices.size(); ++i) {
    Status status = run(devices[i], results);
    if (!status.ok()) {
      if (i + 1 == devices.size() || !IsLeftToTheNext(status)) return status;
      refusal = status.message();
      continue;
    }
    if (refusal.empty()) return {};
    for (MethodResult& result : *results) {
      const std::string own =
          std::exchange(result.note, result.method + " ran on " +
                                         (devices[i].is_gpu() ? DeviceText(devices[i]) : "the CPU") + ": " + refusal);
      AddNote(own, &result);
    }
    return {};
  }
  return {StatusCode::kInvalidArgument, "there is no device to run on: name one"};
}

Measurement::Measurement(MeasuredHeadsPtr measured, const CompareOptions& options, std::vector<Device> devices)
    : measured_(std::move(measured)), options_(options), devices_(std::move(devices)) {}

std::unique_ptr<LayerComparison> Measurement::MakeComparison(const Device& device) {
  CompareOptions options = options_;
  options.device = device;
  options.progress = [this](const RepeatProgress& repeat) { listener_(repeat); };
  return std::make_unique<LayerComparison>(measured_, options);
}

Status Measurement::Run(const std::vector<AskedMethod>& methods, const std::vector<HeadId>& heads,
                        const std::stop_token& stop,
                        const std::function<void(const RepeatProgress& repeat, double share)>& report,
                        std::vector<MethodResult>* results) {
  const bool any_decode = std::any_of(methods.begin(), methods.end(), [](const AskedMethod& asked) {
    return kernels::FindMethod(asked.name).decode != nullptr;
  });
  const auto run_on = [&](const Device& device, std::vector<MethodResult>* made) {
    std::unique_ptr<LayerComparison> once;
    std::unique_ptr<LayerComparison>& comparison = any_decode ? once : prefill_[device];
    if (comparison == nullptr) comparison = MakeComparison(device);
    const int64_t total = std::max<int64_t>(1, comparison->NumRuns(methods));
    int64_t begun = 0;
    listener_ = [&](const RepeatProgress& repeat) {
      const double share = std::min(1.0, static_cast<double>(begun++) / static_cast<double>(total));
      if (report) report(repeat, share);
    };
    comparison->StopBy(stop);
    Status status = comparison->Run(methods, heads, made);
    listener_ = nullptr;
    return status;
  };
  try {
    return RunOnFirstDevice(devices_, run_on, results);
  } catch (const CancelledError& stopped) {
    return StatusOf<Status>(stopped);
  }
}

}  // namespace headscope::analysis
