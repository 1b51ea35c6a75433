// SPDX-License-Identifier: Apache-2.0
// What prefill methods and decode methods are put through alike: prepared, judged head by head, run in rounds beside
// dense, and their times written into results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "analysis/compare.h"
#include "compare/checked_method.h"
#include "compare/judged_heads.h"
#include "compare/mask_quality.h"
#include "compare/rounds.h"
#include "kernels/method_names.h"
#include "kernels/status.h"

namespace headscope::analysis {

// Phase has the types Method, Device, Run (what a method made) and Work (a method, ready to be run again); kPhase;
// MethodOf(CheckedMethod), null for the other phase's; Baseline(); kWorkWritesRun, whether a work goes on to write into
// the run that it was prepared with.
template <typename Phase>
class PhaseComparison {
 public:
  using Device = typename Phase::Device;
  using Run = typename Phase::Run;
  using Work = typename Phase::Work;

  virtual ~PhaseComparison() = default;

  // From the next call on this stops the runs.
  void StopBy(std::stop_token stop) {
    if (device_ != nullptr) device_->StopBy(stop);
    options_.stop = std::move(stop);
  }

  // Fills results[head * methods.size() + method] for the phase's methods among `methods`, but for what is the same of
  // both phases.
  kernels::Status RunMethods(const std::vector<CheckedMethod>& methods, const std::vector<HeadId>& heads,
                             std::vector<MethodResult>* results) {
    if (heads.empty()) return {};
    if (kernels::Status status = PrepareDense(heads.front()); !status.ok()) return status;
    std::vector<RoundEntry> entries;
    if (kernels::Status status = AddBaselines(&entries); !status.ok()) return status;
    std::vector<std::unique_ptr<Run>> runs;
    std::vector<std::unique_ptr<Work>> works;
    std::vector<size_t> entry_of(methods.size());
    for (size_t m = 0; m < methods.size(); ++m) {
      const CheckedMethod& asked = methods[m];
      if (Phase::MethodOf(asked) == nullptr) continue;
      const Run* run = &dense_;
      if (!asked.IsBaseline()) {
        options_.Report({asked.spec().name, Phase::kPhase, 0, options_.repeats});
        runs.push_back(std::make_unique<Run>());
        std::unique_ptr<Work> work;
        kernels::Status status = device_->Prepare(*Phase::MethodOf(asked), asked.values, runs.back().get(), &work);
        if (!status.ok()) return status;
        run = runs.back().get();
        entry_of[m] = entries.size();
        entries.push_back(EntryOf(asked.spec().name, work.get()));
        works.push_back(std::move(work));
      }
      for (size_t h = 0; h < heads.size(); ++h) {
        MethodResult& result = (*results)[h * methods.size() + m];
        if (kernels::Status status = Judge(*run, heads[h], &result); !status.ok()) return status;
        AddNote(NoteOfDenseLayer(*Phase::MethodOf(asked), asked.values, heads[h].layer), &result);
      }
      if (!Phase::kWorkWritesRun) runs.clear();  // the outputs of all heads, at 128K tokens gigabytes
    }
    if (kernels::Status status = RunRounds(options_, Phase::kPhase, &entries); !status.ok()) return status;

    const Baseline baseline = ChooseBaseline(entries);
    for (size_t m = 0; m < methods.size(); ++m) {
      const CheckedMethod& asked = methods[m];
      if (Phase::MethodOf(asked) == nullptr) continue;
      for (size_t h = 0; h < heads.size(); ++h) {
        MethodResult& result = (*results)[h * methods.size() + m];
        result.phase = Phase::kPhase;
        result.is_baseline = asked.IsBaseline();
        result.baseline_method = kernels::UniqueName(Phase::Baseline().spec());
        result.device = device_->where();
        result.chosen_per = ChosenPer(asked);
        result.baseline = baseline.name;
        result.dense_attend = baseline.fastest;
        result.asked_repeats = options_.repeats;
        result.attend = asked.IsBaseline() ? baseline.own : entries[entry_of[m]].Attend();
        // Dense selects nothing: what making its one list took is no part of the baseline.
        if (!asked.IsBaseline()) result.select = entries[entry_of[m]].Select();
        result.speedup = Speedup(result);
        Finish(asked, entries, &result);
      }
    }
    return {};
  }

  // How often the first call of RunMethods with these methods reports a run.
  int64_t NumRuns(const std::vector<CheckedMethod>& methods) const {
    int64_t own = 0;
    bool any = false;
    for (const CheckedMethod& asked : methods) {
      if (Phase::MethodOf(asked) == nullptr) continue;
      any = true;
      own += asked.IsBaseline() ? 0 : 1;
    }
    return any ? (own + 1) * (options_.repeats + 1) + NumOtherBaselines() * options_.repeats : 0;
  }

 protected:
  struct Baseline {
    Timing own;      // headscope's dense
    Timing fastest;  // of all dense implementations that were timed
    std::string name = kOwnImplementation;
  };

  PhaseComparison(MeasuredHeadsPtr measured, const CompareOptions& options, const headscope::Device& judged_on)
      : measured_(std::move(measured)), options_(options), judged_(measured_, judged_on) {}

  // Whether the phase runs on these heads. `asked`: whom a refusal names.
  virtual kernels::Status CheckHeads(HeadId asked) const = 0;
  virtual kernels::Status MakeDevice(std::unique_ptr<Device>* made) = 0;
  // What is timed beside the methods; dense is prepared.
  virtual kernels::Status AddBaselines(std::vector<RoundEntry>* entries) = 0;
  // Of these, those that are not headscope's dense. None of them is reported while it warms up.
  virtual int64_t NumOtherBaselines() const = 0;
  // Kept share, kept mass, distance from dense and the executor's own error, of one head.
  virtual kernels::Status Judge(const Run& run, HeadId head, MethodResult* result) = 0;
  virtual Baseline ChooseBaseline(const std::vector<RoundEntry>& entries) = 0;
  virtual kernels::ChosenPer ChosenPer(const CheckedMethod& asked) const = 0;
  // What else the phase's times say of a result.
  virtual void Finish(const CheckedMethod& asked, const std::vector<RoundEntry>& entries, MethodResult* result) = 0;

  RoundEntry DenseEntry() { return EntryOf(Phase::Baseline().spec().name, dense_work_.get()); }

  const MeasuredHeadsPtr measured_;
  CompareOptions options_;
  JudgedHeads judged_;
  std::unique_ptr<Device> device_;
  Run dense_;  // its output is empty until prepared

 private:
  static RoundEntry EntryOf(const std::string& name, Work* work) {
    return {name, [work](double* select, double* attend) { return work->Once(select, attend); }, {}, {}};
  }

  // Makes the device and the baseline's output. Dense is prepared by the first call that succeeds.
  kernels::Status PrepareDense(HeadId asked) {
    if (kernels::Status status = CheckHeads(asked); !status.ok()) return status;
    if (!dense_.o.empty()) return {};
    if (device_ == nullptr) {
      if (kernels::Status status = MakeDevice(&device_); !status.ok()) return status;
    }
    static const kernels::ParameterValues kNoValues(Phase::Baseline().spec());
    options_.Report({Phase::Baseline().spec().name, Phase::kPhase, 0, options_.repeats});
    kernels::Status status = device_->Prepare(Phase::Baseline(), kNoValues, &dense_, &dense_work_);
    if (!status.ok()) dense_ = {};
    return status;
  }

  std::unique_ptr<Work> dense_work_;
};

}  // namespace headscope::analysis
