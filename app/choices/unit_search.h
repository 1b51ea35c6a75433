// SPDX-License-Identifier: Apache-2.0
// The search of one unit of a tuning, the heads that share a setting: `headscope tune` and the window alike.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/measured_heads.h"
#include "base/device.h"
#include "choices/tuning.h"
#include "data/trace_reader.h"
#include "kernels/status.h"

namespace headscope::app {

// A trace as searches read it: from its file, unless whoever searches has the heads at hand. From any thread.
class TunedTrace {
 public:
  explicit TunedTrace(const data::TraceReader* reader) : reader_(reader) {}  // outlives it
  virtual ~TunedTrace() = default;
  TunedTrace(const TunedTrace&) = delete;
  TunedTrace& operator=(const TunedTrace&) = delete;

  const data::TraceReader& reader() const { return *reader_; }
  virtual analysis::HeadTensorsPtr Load(analysis::HeadId head, const Device& device);
  // The head with the others of its KV head, as far as they are recorded: those that share a selection.
  virtual analysis::MeasuredHeadsPtr GroupOf(analysis::HeadId head);
  // analysis::MassInTrace; null for a whole trace.
  virtual std::shared_ptr<const std::vector<double>> MassInTrace(const analysis::HeadTensors& head, int32_t num_threads,
                                                                 const std::stop_token& stop);

 private:
  const data::TraceReader* const reader_;
};

// Traces that a setting is looked for, or tried, on together.
using TunedTraces = std::vector<TunedTrace*>;

struct UnitSearchOptions {
  Device device = kCpu;      // where prefill methods' heads go, as far as it takes them; everything else is the CPU's
  int32_t front_points = 0;  // of each method's trade-off; 0: it is not asked for
  int32_t num_threads = 0;
  std::stop_token stop = {};
  // The share that is done, 0 to 1, rising. On the caller's thread.
  std::function<void(double share)> report = {};
};

// What one unit's search found: its heads in their order, and its trade-offs.
struct TunedTogether {
  std::vector<TunedHead> heads;
  std::vector<TunedFront> fronts;
  // Of methods that do not run on these heads, where another one does: "tidal-decode: layer 3 reuses ..".
  std::vector<std::string> passed_over;
};

// What to know of a method's settings that are found for heads by themselves, or in their groups, where they mean
// something else beside the layer's other KV heads: a clause; mostly empty. trace: one of those that are searched.
std::string NoteOfMethod(const Tuning& tuning, const MethodChoice& method, const data::TraceReader& trace);

// Refuses (UsageError, of the field "group") a tuning in the heads' groups of what is not judged there: prefill
// methods, other targets than the mass, a setting for several heads.
void CheckGroup(const Tuning& tuning);

// What a head takes in memory at most while it is searched, of all traces together.
int64_t SearchedHeadBytes(const Tuning& tuning, const TunedTraces& traces, const std::vector<analysis::HeadId>& heads,
                          int32_t num_threads);
// Heads that share a setting are in memory together, with their masses and trade-offs and the lower layers' heads.
// Throws DeviceError, of the field "per", where that is more than half of what is available.
void CheckUnitMemory(const Tuning& tuning, const TunedTraces& traces, const std::vector<analysis::HeadId>& unit,
                     int32_t num_threads);

// The cheapest setting of the tuning's methods that reaches its target, over all heads of the unit and all traces, and
// what it does on `checks`. A method that answers kUnsupported is passed over where another one runs. Status: what a
// method, named, ends with; kUnsupported where every method does. Throws what reading a head throws.
kernels::Status TuneUnit(const Tuning& tuning, const TunedTraces& traces, const TunedTraces& checks,
                         const std::vector<analysis::HeadId>& unit, const UnitSearchOptions& options,
                         TunedTogether* together);

}  // namespace headscope::app
