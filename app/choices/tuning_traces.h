// SPDX-License-Identifier: Apache-2.0
// The traces of a tuning: which may be tuned, or checked, together, and what they lack.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/head_tensors.h"
#include "choices/length_range.h"
#include "choices/tuning.h"
#include "data/trace_identity.h"
#include "data/trace_reader.h"

namespace headscope::app {

// Refuses (BadInputError) a trace without query rows or with gaps between them, and (UsageError) one of another model
// than `first`'s. `trace` may be `first`.
void CheckTunedTogether(const data::TraceReader& trace, const data::TraceReader& first);

// Refuses (BadInputError) a method of the tuning, or the setting that is its target, of a file that is of another model
// than the trace's.
void CheckMethodsAreOfModel(const Tuning& tuning, const data::TraceReader& trace);

// Whether a path leads to one of the traces, whatever its name. Trace: an owner of a reader or a pointer to one.
template <typename Trace, typename ReaderOf>
bool LeadsToOneOf(const std::string& path, const std::vector<Trace>& traces, const ReaderOf& reader_of) {
  if (traces.empty()) return false;
  const std::string set = data::FileSetAt(path);
  return std::ranges::any_of(traces, [&](const Trace& trace) { return data::LeadsTo(path, set, reader_of(trace)); });
}

// The first of the heads that the trace has not recorded; nothing where it has all.
std::optional<analysis::HeadId> HeadNotRecorded(const data::TraceReader& trace,
                                                const std::vector<analysis::HeadId>& heads);

// The tokens of the whole prompt, of which a trace may be a part; those that were decoded behind it are none of them.
// Of a part that begins behind the prompt, the most that they can be: its first token's place.
int64_t PromptTokens(const data::TraceReader& trace);

// What is tuned together, and what its settings are checked on. Trace: an owner of a reader or a pointer to one.
template <typename Trace>
struct RangeOfTraces {
  LengthRange range;
  std::vector<Trace> traces, checks;
  // What settings are tried on: other traces or, where rows are held out and no trace is, the same ones.
  const std::vector<Trace>& TriedOn(bool rows_are_held_out) const {
    return checks.empty() && rows_are_held_out ? traces : checks;
  }
};

// The traces and checks by their prompts' lengths: of `ranges`, those that hold any, in their order. One may hold
// checks alone. `ranges` are those of RangesBetween, so that each length is in one; reader_of(trace) is its reader.
template <typename Trace, typename ReaderOf>
std::vector<RangeOfTraces<Trace>> ByLength(const std::vector<LengthRange>& ranges, std::vector<Trace> traces,
                                           std::vector<Trace> checks, const ReaderOf& reader_of) {
  std::vector<RangeOfTraces<Trace>> parts;
  for (const LengthRange& range : ranges) parts.emplace_back().range = range;
  const auto part_of = [&](const Trace& trace) -> RangeOfTraces<Trace>& {
    const int64_t tokens = PromptTokens(reader_of(trace));
    return *std::ranges::find_if(parts, [tokens](const auto& part) { return part.range.Holds(tokens); });
  };
  for (Trace& trace : traces) part_of(trace).traces.push_back(std::move(trace));
  for (Trace& trace : checks) part_of(trace).checks.push_back(std::move(trace));
  std::erase_if(parts, [](const auto& part) { return part.traces.empty() && part.checks.empty(); });
  return parts;
}

// What a tuning, whose question is known, says of its traces: range, model, layers, sources and the methods' grids.
void DescribeTraces(const RangeOfTraces<const data::TraceReader*>& part, Tuning* tuning);

// What mass each row of a recording finds in its trace (analysis::MassInTrace); null where the trace is whole.
using InsideMass = std::function<std::shared_ptr<const std::vector<double>>(size_t recording)>;

// The mean share of attention on tokens that the traces do not hold, over the rows of all recordings of a head
// together; 0 of none.
double MeanOutside(const std::vector<analysis::HeadTensorsPtr>& recordings, const InsideMass& inside);

}  // namespace headscope::app
