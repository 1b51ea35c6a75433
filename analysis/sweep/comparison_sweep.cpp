// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "analysis/head_sweeps.h"
#include "analysis/prefill_heads.h"
#include "base/device.h"
#include "kernels/method_names.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

// Heads of the list, by their places in it, that one measurement serves.
struct Shared {
  HeadId first;
  std::vector<size_t> places;
};

std::vector<Shared> ShareMeasurements(const data::TraceReader& trace, const std::vector<HeadId>& heads, Measure measure,
                                      int64_t most_bytes) {
  std::vector<Shared> all;
  std::vector<bool> served(heads.size(), false);
  for (size_t i = 0; i < heads.size(); ++i) {
    if (served[i]) continue;
    Shared shared{heads[i], {i}};
    if (measure == Measure::kLayer) {
      const LayerPart part = PartOfLayer(trace, heads[i], most_bytes);
      for (size_t j = i + 1; j < heads.size(); ++j) {
        const int32_t place = heads[j].head - part.first_qo_head;
        if (served[j] || heads[j].layer != heads[i].layer || place < 0 || place >= part.num_qo_heads) continue;
        served[j] = true;
        shared.places.push_back(j);
      }
    }
    all.push_back(std::move(shared));
  }
  return all;
}

// The places of the methods that run on these heads: all, or those that comparison.left_out is not told of.
Status WhichRun(const MeasuredHeads& measured, const ComparisonSweep& comparison, const std::stop_token& stop,
                std::vector<size_t>* places) {
  for (size_t i = 0; i < comparison.methods.size(); ++i) {
    const AskedMethod& asked = comparison.methods[i];
    const kernels::DecodeMethod* const decode = kernels::FindMethod(asked.name).decode;
    if (comparison.left_out) {
      Status status = decode == nullptr
                          ? CheckPrefillHeads(measured, {measured.layer, measured.first_qo_head})
                          : CheckDecodeRuns(measured, *decode, asked.values, comparison.options.decode_rows,
                                            comparison.options.num_threads, stop);
      if (MeansItDoesNotRun(status)) {
        comparison.left_out(asked, measured.Name(), status);
        continue;
      }
      if (!status.ok()) return status;
    }
    places->push_back(i);
  }
  return {};
}

}  // namespace

MeasuredHeadsPtr WithLayersBelow(const data::TraceReader& trace, const MeasuredHeadsPtr& heads,
                                 const std::vector<AskedMethod>& methods) {
  std::set<int32_t> layers;
  for (const AskedMethod& asked : methods) {
    const kernels::DecodeMethod* const decode = kernels::FindMethod(asked.name).decode;
    if (decode == nullptr) continue;
    for (const int32_t lower : decode->LowerLayers(asked.values, heads->layer)) layers.insert(lower);
  }
  return WithLowerLayers(trace, heads, {layers.begin(), layers.end()});
}

Status SweepComparisons(const data::TraceReader& trace, const std::vector<HeadId>& heads,
                        const ComparisonSweep& comparison, const SweepOptions& sweep,
                        std::vector<MethodResult>* results) {
  const std::vector<AskedMethod>& methods = comparison.methods;
  const int64_t most_bytes = MostMeasuredBytes();
  const std::vector<Shared> measurements = ShareMeasurements(trace, heads, comparison.measure, most_bytes);
  std::vector<Device> devices = comparison.devices;
  if (devices.empty()) devices = {comparison.options.device};
  const auto heads_of = [&](const Shared& shared) {
    std::vector<HeadId> of_it;
    of_it.reserve(shared.places.size());
    for (const size_t place : shared.places) of_it.push_back(heads[place]);
    return of_it;
  };
  const auto measure = [&](const SweepCell& cell, std::vector<MethodResult>* made) -> Status {
    const Shared& shared = measurements[cell.place];
    MeasuredHeadsPtr measured = comparison.measure == Measure::kLayer ? LoadLayer(trace, shared.first, most_bytes)
                                                                      : AloneHead(LoadHead(trace, shared.first));
    const std::vector<HeadId> judged = heads_of(shared);
    for (const size_t place : shared.places) {
      if (!comparison.look) break;
      const HeadTensorsPtr head = measured->Head(heads[place], comparison.options.device);
      comparison.look(*head);
      if (shared.places.size() > 1) continue;
      auto knows_it = std::make_shared<MeasuredHeads>(*measured);
      // Beside the one that it knows already: what is measured may point into that.
      knows_it->known.push_back(head);
      measured = knows_it;
    }
    measured = WithLayersBelow(trace, measured, methods);
    std::vector<size_t> places;
    Status status = WhichRun(*measured, comparison, sweep.stop, &places);
    std::vector<AskedMethod> run;
    run.reserve(places.size());
    for (const size_t place : places) run.push_back(methods[place]);
    std::vector<MethodResult> of_these;
    if (status.ok() && !run.empty()) {
      const auto report = [&](const RepeatProgress& repeat, double share) {
        cell.report(share);
        if (comparison.repeats) comparison.repeats(repeat);
      };
      status = Measurement(measured, comparison.options, devices).Run(run, judged, sweep.stop, report, &of_these);
    }
    if (!status.ok()) return {status.code(), trace.path() + ", " + measured->Name() + ": " + status.message()};
    if (comparison.measured) comparison.measured(of_these);
    made->resize(judged.size() * methods.size());
    for (size_t i = 0; i < of_these.size(); ++i)
      (*made)[i / run.size() * methods.size() + places[i % run.size()]] = std::move(of_these[i]);
    return {};
  };
  SweepOptions in_turn = sweep;
  in_turn.most_at_once = 1;  // their times are figures
  if (comparison.failed) {
    in_turn.failed = [&](const SweepCell& cell, const Status& why) {
      comparison.failed(heads_of(measurements[cell.place]), why);
    };
  }
  std::vector<std::optional<std::vector<MethodResult>>> by_measurement;
  if (Status status = Sweep(SweepAxes{.num_heads = measurements.size()}, in_turn, measure, &by_measurement);
      !status.ok())
    return status;
  results->assign(heads.size() * methods.size(), {});
  for (size_t m = 0; m < measurements.size(); ++m) {
    if (!by_measurement[m]) continue;
    std::vector<MethodResult>& made = *by_measurement[m];
    for (size_t i = 0; i < made.size(); ++i) {
      const size_t head = measurements[m].places[i / methods.size()];
      (*results)[head * methods.size() + i % methods.size()] = std::move(made[i]);
    }
  }
  std::erase_if(*results, [](const MethodResult& result) { return result.method.empty(); });
  return {};
}

}  // namespace headscope::analysis
