// SPDX-License-Identifier: Apache-2.0
#include "measured_sweep.h"

#include <utility>

#include "analysis/head_sweeps.h"
#include "analysis/types/printable.h"
#include "base/check_status.h"
#include "base/device.h"
#include "kernels/method_names.h"
#include "support/run_origin.h"

namespace headscope::app {

std::function<analysis::MeasuredHeadsPtr(analysis::MeasuredHeadsPtr)> LowerLayersFor(
    const OpenedTrace& trace, const std::string& method, const kernels::ParameterValues& values, int32_t layer) {
  const kernels::DecodeMethod* const decode = kernels::FindMethod(method).decode;
  if (decode == nullptr) return {};
  if (decode->LowerLayers(values, layer).empty()) return {};
  return [&trace, asked = std::vector<analysis::AskedMethod>{{method, values}}](
             const analysis::MeasuredHeadsPtr& heads) { return analysis::WithLayersBelow(trace.reader, heads, asked); };
}

void MeasureHeads(OpenedTrace& trace, const std::vector<analysis::HeadId>& heads, const MeasuredSweep& sweep,
                  const HeadsCalls<analysis::MethodResult>& calls, const std::stop_token& stop) {
  if (heads.empty()) return;
  analysis::ComparisonSweep comparison;
  comparison.methods = {{sweep.method, sweep.values}};
  comparison.measure = sweep.alone ? analysis::Measure::kHead : analysis::Measure::kLayer;
  comparison.options = sweep.options;
  comparison.devices = {kCpu};
  const analysis::HeadTensorsPtr first = trace.heads.GetUncached(heads.front(), kWindowsGpu);
  if (first->gpu != nullptr) comparison.devices = {first->gpu_device.device, kCpu};
  comparison.measured = [&](const std::vector<analysis::MethodResult>& results) {
    for (analysis::MethodResult result : results) {
      result.origin = OriginOf(trace.reader);
      calls.one(std::move(result));
    }
  };
  comparison.failed = [&](const std::vector<analysis::HeadId>& failed, const kernels::Status& why) {
    for (const analysis::HeadId& head : failed) calls.failed({head, analysis::Printable(why.message())});
  };
  comparison.repeats = sweep.repeats;
  analysis::SweepOptions options;
  options.stop = stop;
  options.progress = [&](const analysis::SweepProgress& progress) { calls.progress(progress.share); };
  std::vector<analysis::MethodResult> all;
  const kernels::Status status = analysis::SweepComparisons(trace.reader, heads, comparison, options, &all);
  if (status.code() != kernels::StatusCode::kCancelled) CheckStatus(status);
}

}  // namespace headscope::app
