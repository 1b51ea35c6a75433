// SPDX-License-Identifier: Apache-2.0
#include "tuned_heads.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "analysis/compare.h"
#include "analysis/outside_mass.h"
#include "analysis/sweep.h"
#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "choices/tuning.h"
#include "choices/tuning_files.h"
#include "kernels/cuda_executor.h"
#include "support/output_file.h"

namespace headscope::app {

analysis::BudgetTarget WindowTarget(double share) {
  return {share, analysis::MassStatistic::kFifthPercentile};
}

kernels::NamedMethod SearchedMethod(const std::string& name) {
  const kernels::NamedMethod method = kernels::FindMethod(name);
  if (method.spec() == nullptr) throw UsageError("There is no method " + name + ": choose one of the panel's list.");
  return method;
}

kernels::Status SearchDecode(const OpenedTrace& trace, analysis::HeadId head,
                             const analysis::MeasuredHeadsPtr& measured, const kernels::DecodeMethod& method,
                             const kernels::ParameterValues& values, double target,
                             const analysis::DecodeSearchOptions& options, analysis::BudgetSearchResult* found) {
  const analysis::MeasuredHeadsPtr all =
      analysis::WithLayersBelow(trace.reader, measured, {{kernels::UniqueName(method.spec()), values}});
  analysis::DecodeSearchOptions of_head = options;
  of_head.head = head;
  analysis::DecodeBudgetSearcher searcher({{all}}, of_head);
  std::vector<analysis::BudgetSearchResult> results;
  kernels::Status status = searcher.Search(method, values, WindowTarget(target), &results);
  if (status.ok()) *found = results.front();
  return status;
}

const kernels::ParameterValues& ReachedValues(const kernels::MethodSpec& spec, double target,
                                              const analysis::BudgetSearchResult& found) {
  if (!found.reached) throw FailedError(analysis::UnreachedSentence(spec, WindowTarget(target), found));
  return found.values;
}

namespace {

kernels::Status TuneHead(OpenedTrace& trace, analysis::HeadId head, const kernels::NamedMethod& method,
                         const kernels::ParameterValues& values, double target, const analysis::SweepCell& cell,
                         const std::stop_token& stop, ui::TunedSetting* setting) {
  // Past the cache: a pass over all heads would push out what the window shows.
  const Device& device = method.decode != nullptr ? kCpu : kWindowsGpu;
  const std::array<analysis::HeadTensorsPtr, 1> recordings = {trace.heads.GetUncached(head, device)};
  analysis::BudgetSearchOptions options;
  options.num_threads = cell.num_threads;
  options.stop = stop;
  options.progress = cell.report;
  analysis::BudgetSearchResult found;
  kernels::Status status =
      method.decode != nullptr
          ? SearchDecode(trace, head, analysis::AloneHead(recordings.front()), *method.decode, values, target,
                         {.search = options}, &found)
          : analysis::SearchBudget(recordings, *method.prefill, values, WindowTarget(target), options, &found);
  if (!status.ok()) return status;
  ui::TunedSetting tuned;
  tuned.head = head;
  tuned.values = found.values;
  tuned.reached = found.reached;
  tuned.kept_fraction = found.kept_fraction;
  tuned.mass = found.mass;
  tuned.device = recordings.front()->WhereComputed().name;
  if (const auto inside = trace.MassInTrace(*recordings.front(), stop))
    tuned.outside_mass = analysis::MeanOutsideMass(*recordings.front(), *inside, 0, recordings.front()->num_rows);
  *setting = std::move(tuned);
  return status;
}

}  // namespace

void TuneHeads(OpenedTrace& trace, const std::vector<analysis::HeadId>& heads, const std::string& method,
               const kernels::ParameterValues& values, double target, const HeadsCalls<ui::TunedSetting>& calls,
               const std::stop_token& stop) {
  const kernels::NamedMethod searched = SearchedMethod(method);
  analysis::SweepOptions options;
  kernels::CudaDeviceInfo gpu;
  const Device device = kernels::QueryCudaDevice(kWindowsGpu.ordinal, &gpu).ok() ? kWindowsGpu : kCpu;
  options.most_at_once = analysis::HeadsAtOnce(device, analysis::LargestHeadBytes(trace.reader, heads));
  options.stop = stop;
  options.progress = [&](const analysis::SweepProgress& progress) { calls.progress(progress.share); };
  options.failed = [&](const analysis::SweepCell& cell, const kernels::Status& why) {
    calls.failed({heads[cell.head], analysis::Printable(why.message())});
  };
  std::mutex mutex;
  const kernels::Status status =
      analysis::SweepCells({.num_heads = heads.size()}, options, [&](const analysis::SweepCell& cell) {
        ui::TunedSetting tuned;
        kernels::Status found = TuneHead(trace, heads[cell.head], searched, values, target, cell, stop, &tuned);
        const std::lock_guard lock(mutex);
        if (found.ok()) calls.one(std::move(tuned));
        return found;
      });
  if (status.code() != kernels::StatusCode::kCancelled) CheckStatus(status);
}

void ExportTuning(const data::TraceReader& trace, const std::string& method, double target,
                  const std::vector<ui::TunedSetting>& heads, size_t num_heads_chosen, const std::string& path) {
  Tuning tuning;
  tuning.model = trace.layout().model;
  tuning.traces.push_back(
      {trace.path(), trace.layout().prompt_source, trace.num_tokens(), trace.num_rows(), trace.layout().first_token});
  const MethodChoice choice = ParseMethod(method);
  tuning.methods.push_back({choice, analysis::SearchedGrid(*choice.spec, trace.num_tokens())});
  tuning.target = {.text = "cra-p5=" + analysis::ShortestNumber(target), .budget = WindowTarget(target), .limit = {}};
  tuning.num_heads_chosen = num_heads_chosen;
  for (const ui::TunedSetting& head : heads) {
    TunedHead tuned;
    tuned.id = head.head;
    tuned.found.reached = head.reached;
    tuned.found.values = head.values;
    tuned.found.kept_fraction = head.kept_fraction;
    tuned.found.mass = head.mass;
    tuned.device = head.device;
    tuned.outside_mass = head.outside_mass;
    tuning.heads.push_back(std::move(tuned));
  }
  if (!tuning.complete()) {
    throw UsageError("Only " + std::to_string(heads.size()) + " of " + std::to_string(num_heads_chosen) +
                     " heads are tuned, and a configuration holds all of them: resume the tuning first.");
  }
  const TuningFormat format = ChooseTuningFormat("", path);
  std::vector<analysis::HeadId> tuned_heads;
  for (const TunedHead& head : tuning.heads) tuned_heads.push_back(head.id);
  CheckTuningFormat(format, tuning, tuned_heads);
  WriteText(TuningFile(tuning, format), path, /*force=*/true);
}

}  // namespace headscope::app
