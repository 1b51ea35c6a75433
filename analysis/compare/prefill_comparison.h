// SPDX-License-Identifier: Apache-2.0
// Prefill methods: all recorded rows at once, beside dense attention.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compare/phase_comparison.h"
#include "compare/prefill_device.h"
#include "kernels/method_names.h"

namespace headscope::analysis {

struct PrefillPhase {
  using Method = kernels::PrefillMethod;
  using Device = PrefillDevice;
  using Run = PrefillRun;
  using Work = PrefillWork;
  static constexpr kernels::Phase kPhase = kernels::Phase::kPrefill;
  static constexpr bool kWorkWritesRun = false;
  static const Method* MethodOf(const CheckedMethod& asked) { return asked.method.prefill; }
  static const Method& Baseline() { return kernels::PrefillBaseline(); }
};

class PrefillComparison : public PhaseComparison<PrefillPhase> {
 public:
  PrefillComparison(MeasuredHeadsPtr measured, const CompareOptions& options);

 private:
  kernels::Status CheckHeads(HeadId asked) const override;
  kernels::Status MakeDevice(std::unique_ptr<PrefillDevice>* made) override;
  kernels::Status AddBaselines(std::vector<RoundEntry>* entries) override;
  int64_t NumOtherBaselines() const override { return 0; }
  kernels::Status Judge(const PrefillRun& run, HeadId head, MethodResult* result) override;
  Baseline ChooseBaseline(const std::vector<RoundEntry>& entries) override;
  kernels::ChosenPer ChosenPer(const CheckedMethod& asked) const override { return asked.spec().chosen_per; }
  void Finish(const CheckedMethod&, const std::vector<RoundEntry>&, MethodResult*) override {}
  // Relative error of the executor itself on rows spread evenly from the first to the last.
  kernels::Status KernelError(const PrefillRun& run, int64_t head, double* error) const;

  Timing pinned_;  // a long baseline's; no repeats: there is none
};

}  // namespace headscope::analysis
