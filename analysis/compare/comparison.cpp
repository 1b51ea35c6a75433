// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "analysis/compare.h"
#include "base/quoted_text.h"
#include "compare/checked_method.h"
#include "compare/decode_comparison.h"
#include "compare/mask_quality.h"
#include "compare/prefill_comparison.h"
#include "kernels/cuda_devices.h"
#include "kernels/parallel.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

// Refuses a name that is not registered, and values that the method does not have or that are out of range.
Status Check(const AskedMethod& asked, CheckedMethod* checked) {
  checked->method = kernels::FindMethod(asked.name);
  if (checked->method.spec() == nullptr) {
    return {StatusCode::kInvalidArgument,
            "method " + Quoted(asked.name) + " is not registered: choose from " + kernels::MethodNames()};
  }
  kernels::ParameterValues values(checked->spec());
  for (const auto& [name, value] : asked.values.values()) {
    if (const std::string error = values.Set(checked->spec(), name, value); !error.empty())
      return {StatusCode::kInvalidArgument, error};
  }
  checked->values = asked.values;
  return {};
}

CompareOptions AtLeastOneRepeat(CompareOptions options) {
  options.repeats = std::max(1, options.repeats);
  return options;
}

}  // namespace

struct LayerComparison::Impl {
  Impl(MeasuredHeadsPtr heads, const CompareOptions& options)
      : measured(std::move(heads)),
        device(options.device),
        num_threads(kernels::NumWorkers(options.num_threads, std::numeric_limits<int32_t>::max())),
        prefill(measured, options),
        decode(measured, options) {}

  const MeasuredHeadsPtr measured;
  const Device device;
  const int32_t num_threads;
  PrefillComparison prefill;
  DecodeComparison decode;
};

LayerComparison::LayerComparison(MeasuredHeadsPtr measured, const CompareOptions& options)
    : impl_(std::make_unique<Impl>(std::move(measured), AtLeastOneRepeat(options))) {}

LayerComparison::~LayerComparison() = default;

void LayerComparison::StopBy(std::stop_token stop) {
  impl_->prefill.StopBy(stop);
  impl_->decode.StopBy(std::move(stop));
}

Status LayerComparison::Run(const std::vector<AskedMethod>& methods, const std::vector<HeadId>& heads,
                            std::vector<MethodResult>* results) {
  std::vector<CheckedMethod> checked(methods.size());
  bool any_prefill = false, any_decode = false;
  for (size_t m = 0; m < methods.size(); ++m) {
    if (Status status = Check(methods[m], &checked[m]); !status.ok()) return status;
    (checked[m].method.prefill != nullptr ? any_prefill : any_decode) = true;
  }
  // Whatever thread this is: a worker's GPU would else be the first.
  kernels::CudaDeviceScope gpu;
  if (impl_->device.is_gpu()) {
    if (Status status = gpu.Enter(impl_->device.ordinal); !status.ok()) return status;
  }
  const MeasuredHeads& measured = *impl_->measured;
  std::vector<MethodResult> made(heads.size() * methods.size());
  for (size_t i = 0; i < made.size(); ++i) {
    const CheckedMethod& method = checked[i % methods.size()];
    MethodResult& result = made[i];
    result.head = heads[i / methods.size()];
    result.method = kernels::UniqueName(method.spec());
    result.parameters = method.values.ToString(method.spec());
    result.num_threads = impl_->num_threads;
    result.measured = measured.Scope();
  }
  if (any_prefill) {
    if (Status status = impl_->prefill.RunMethods(checked, heads, &made); !status.ok()) return status;
  }
  if (any_decode) {
    if (Status status = impl_->decode.RunMethods(checked, heads, &made); !status.ok()) return status;
  }
  if (!measured.why_fewer.empty()) {
    for (MethodResult& result : made) AddNote(measured.Name() + " were measured: " + measured.why_fewer, &result);
  }
  *results = std::move(made);
  return {};
}

int64_t LayerComparison::NumRuns(const std::vector<AskedMethod>& methods) const {
  std::vector<CheckedMethod> checked(methods.size());
  for (size_t m = 0; m < methods.size(); ++m) {
    if (!Check(methods[m], &checked[m]).ok()) return 0;
  }
  return impl_->prefill.NumRuns(checked) + impl_->decode.NumRuns(checked);
}

HeadComparison::HeadComparison(HeadTensorsPtr head, const CompareOptions& options)
    : head_(head->id), comparison_(AloneHead(std::move(head)), options) {}

Status HeadComparison::Run(const std::string& method, const kernels::ParameterValues& values, MethodResult* result) {
  std::vector<MethodResult> results;
  Status status = comparison_.Run({{method, values}}, {head_}, &results);
  if (status.ok()) *result = std::move(results.front());
  return status;
}

}  // namespace headscope::analysis
