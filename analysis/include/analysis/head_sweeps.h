// SPDX-License-Identifier: Apache-2.0
// The sweeps over a trace's heads that commands and the window share (analysis/sweep.h is their loop).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/measured_heads.h"
#include "analysis/statistics.h"
#include "analysis/sweep.h"
#include "base/device.h"
#include "data/trace_reader.h"

namespace headscope::analysis {

// Looks at a head of a sweep when its result is there; `place` counts in the list of heads. From any of the sweep's
// threads, several at a time.
using LookAtStatistics = std::function<void(size_t place, const HeadTensors& head, const HeadStatistics& statistics)>;

// Statistics of the heads, in their order. `options` gives what is computed; threads and stop are the sweep's, as is
// how many heads are under way at once. look: may be empty. Errors: kCancelled, and *results is then unchanged. Throws
// as LoadHead.
kernels::Status SweepStatistics(const data::TraceReader& trace, const std::vector<HeadId>& heads, const Device& device,
                                const StatisticsOptions& options, const SweepOptions& sweep,
                                const LookAtStatistics& look, std::vector<HeadStatistics>* results);

// Whether CheckPrefillHeads or CheckDecodeRuns says that the method does not run on the heads: they lack something
// (kUnsupported), or its parameters do not fit them, such as a budget below what is kept in any case
// (kInvalidArgument). Another error is the machine's, or a stop.
inline bool MeansItDoesNotRun(const kernels::Status& status) {
  return status.code() == kernels::StatusCode::kUnsupported || status.code() == kernels::StatusCode::kInvalidArgument;
}

struct ComparisonSweep {
  std::vector<AskedMethod> methods;
  Measure measure = Measure::kLayer;
  CompareOptions options;  // progress and stop are the sweep's
  // Looks at every head as it is judged. May be empty.
  std::function<void(const HeadTensors& head)> look = {};
  // Told of a method that does not run on some heads (CheckPrefillHeads, CheckDecodeRuns), which `where` names; it then
  // has no results there, and the others go on. Empty: that ends the sweep.
  std::function<void(const AskedMethod& method, const std::string& where, const kernels::Status& why)> left_out = {};
  // Where to measure, as RunOnFirstDevice takes them; empty: on options.device alone.
  std::vector<Device> devices = {};
  // Told of every measurement as it ends. May be empty.
  std::function<void(const std::vector<MethodResult>& results)> measured = {};
  // Told of the heads of a measurement that failed; the others go on. Empty: that ends the sweep.
  std::function<void(const std::vector<HeadId>& heads, const kernels::Status& why)> failed = {};
  std::function<void(const RepeatProgress& repeat)> repeats = {};  // may be empty
};

// Measures every layer that one of `heads` is of once, one after the other, and judges the heads by that run: results
// by head, then method, both in the order given. Errors: as LayerComparison::Run, beginning with the trace's path and
// what was measured. Throws as LoadLayer.
kernels::Status SweepComparisons(const data::TraceReader& trace, const std::vector<HeadId>& heads,
                                 const ComparisonSweep& comparison, const SweepOptions& sweep,
                                 std::vector<MethodResult>* results);

// Measures methods on heads that are in memory, as often as it is asked to, on the first of its devices that takes the
// work (RunOnFirstDevice). A long dense baseline of prefill is measured once a device and kept; that of decode steps,
// which is over in a fraction of a second, by every run: one from a moment when the machine was busy would make every
// later run look fast. One run at a time.
class Measurement {
 public:
  // Of `options`, device, stop and progress are the runs' own.
  Measurement(MeasuredHeadsPtr measured, const CompareOptions& options, std::vector<Device> devices);

  // report: of every repeat, with the share of the run that is done before it; may be empty. Errors: those of
  // LayerComparison::Run; kCancelled.
  kernels::Status Run(const std::vector<AskedMethod>& methods, const std::vector<HeadId>& heads,
                      const std::stop_token& stop,
                      const std::function<void(const RepeatProgress& repeat, double share)>& report,
                      std::vector<MethodResult>* results);

 private:
  std::unique_ptr<LayerComparison> MakeComparison(const Device& device);

  const MeasuredHeadsPtr measured_;
  const CompareOptions options_;
  const std::vector<Device> devices_;
  std::map<Device, std::unique_ptr<LayerComparison>> prefill_;  // by device
  std::function<void(const RepeatProgress&)> listener_;         // of the run under way
};

// Runs on the first of `devices` that takes the work: what one does not do, has no memory for or is not there for, the
// next one does, and the note of its results says so. Errors: the last one's.
kernels::Status RunOnFirstDevice(
    const std::vector<Device>& devices,
    const std::function<kernels::Status(const Device& device, std::vector<MethodResult>* results)>& run,
    std::vector<MethodResult>* results);

}  // namespace headscope::analysis
