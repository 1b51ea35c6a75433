// SPDX-License-Identifier: Apache-2.0
#include "commands/comparison_run.h"

#include <algorithm>

#include "commands/head_results.h"
#include "support/errors.h"

namespace headscope::app {
namespace {

// Heads of the list, by their places in it, that one measurement serves.
struct Shared {
  analysis::HeadId first;
  std::vector<size_t> places;
};

std::vector<Shared> ShareMeasurements(const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads,
                                      Measure measure, int64_t most_bytes) {
  std::vector<Shared> all;
  std::vector<bool> served(heads.size(), false);
  for (size_t i = 0; i < heads.size(); ++i) {
    if (served[i]) continue;
    Shared shared{heads[i], {i}};
    if (measure == Measure::kLayer) {
      const analysis::LayerPart part = analysis::PartOfLayer(trace, heads[i], most_bytes);
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

// Runs of a method or a baseline, warming up included, that one measurement reports.
int64_t RunsOf(const std::vector<MethodChoice>& methods, const analysis::CompareOptions& options) {
  bool prefill = false, decode = false;
  int64_t runs = 0;
  for (const MethodChoice& method : methods) {
    (method.prefill != nullptr ? prefill : decode) = true;
    runs += method.spec->baseline ? 0 : 1;
  }
  return (runs + (prefill ? 1 : 0) + (decode ? 1 : 0)) * (options.repeats + 1);
}

}  // namespace

Measure ParseMeasure(const std::string& text) {
  if (text == "layer") return Measure::kLayer;
  if (text == "head") return Measure::kHead;
  throw UsageError("--measure '" + text + "': choose layer or head");
}

std::vector<analysis::MethodResult> CompareHeads(const data::TraceReader& trace,
                                                 const std::vector<analysis::HeadId>& heads,
                                                 const std::vector<MethodChoice>& methods, Measure measure,
                                                 analysis::CompareOptions options, ProgressLine* line,
                                                 HeadNotes* notes) {
  std::vector<analysis::AskedMethod> asked;
  for (const MethodChoice& method : methods) asked.push_back({method.name, method.values});
  const int64_t most_bytes = analysis::MostMeasuredBytes();
  const std::vector<Shared> measurements = ShareMeasurements(trace, heads, measure, most_bytes);
  const int64_t total = static_cast<int64_t>(measurements.size()) * RunsOf(methods, options);
  int64_t done = 0;
  options.progress = [&](const analysis::RepeatProgress&) {
    line->Show("comparing", std::min(done, total), total, "runs");
    ++done;
  };
  const auto where = options.device == "cuda" ? analysis::HeadPlace::kGpuWhereExact : analysis::HeadPlace::kCpu;
  std::vector<analysis::MethodResult> results(heads.size() * methods.size());
  for (const Shared& shared : measurements) {
    analysis::MeasuredHeadsPtr measured = measure == Measure::kLayer
                                              ? analysis::LoadLayer(trace, shared.first, most_bytes)
                                              : analysis::AloneHead(analysis::LoadHead(trace, shared.first));
    std::vector<analysis::HeadId> judged;
    for (const size_t place : shared.places) {
      judged.push_back(heads[place]);
      if (notes == nullptr) continue;
      const analysis::HeadTensorsPtr head = measured->Head(heads[place], where);
      notes->Look(*head, trace);
      if (shared.places.size() > 1) continue;
      auto knows_it = std::make_shared<analysis::MeasuredHeads>(*measured);
      // Beside the one that it knows already: what is measured may point into that.
      knows_it->known.push_back(head);
      measured = knows_it;
    }
    std::vector<analysis::MethodResult> made;
    CheckStatus(analysis::LayerComparison(measured, options).Run(asked, judged, &made),
                trace.path() + ", " + measured->Name());
    for (size_t i = 0; i < made.size(); ++i) {
      results[shared.places[i / methods.size()] * methods.size() + i % methods.size()] = std::move(made[i]);
    }
  }
  if (total > 0) line->Show("comparing", total, total, "runs");
  return results;
}

}  // namespace headscope::app
