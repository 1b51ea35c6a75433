// SPDX-License-Identifier: Apache-2.0
// Decode methods: the last recorded rows, one generation step each, beside dense decode.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compare/chosen_per.h"
#include "compare/decode_device.h"
#include "compare/decode_steps.h"
#include "compare/phase_comparison.h"
#include "kernels/method_names.h"

namespace headscope::analysis {

struct DecodePhase {
  using Method = kernels::DecodeMethod;
  using Device = DecodeDevice;
  using Run = DecodeRun;
  using Work = DecodeWork;
  static constexpr kernels::Phase kPhase = kernels::Phase::kDecode;
  static constexpr bool kWorkWritesRun = true;
  static const Method* MethodOf(const CheckedMethod& asked) { return asked.method.decode; }
  static const Method& Baseline() { return kernels::DecodeBaseline(); }
};

// What a step reads beside dense decode, of a method whose bytes allow such a speed-up: "3.2 times fewer bytes than
// dense decode", "as many ..", or, below 1, "1.3 times as many ..".
std::string BytesBesideDense(double bytes_allow);

// What the phase's device and works refer to: a base, so that it outlives them.
struct StepsOfHeads {
  StepsOfHeads(const MeasuredHeads& heads, int32_t rows) : steps_(heads, {heads.layer, heads.first_qo_head}, rows) {}

  const DecodeSteps steps_;
};

// Dense decode is over in a fraction of a second and measured by every call.
class DecodeComparison : private StepsOfHeads, public PhaseComparison<DecodePhase> {
 public:
  DecodeComparison(MeasuredHeadsPtr measured, const CompareOptions& options);

 private:
  kernels::Status CheckHeads(HeadId asked) const override { return steps_.Check(asked); }
  kernels::Status MakeDevice(std::unique_ptr<DecodeDevice>* made) override;
  kernels::Status AddBaselines(std::vector<RoundEntry>* entries) override;
  int64_t NumOtherBaselines() const override { return (WantsOther() ? 1 : 0) + (CanRead() ? 1 : 0); }
  kernels::Status Judge(const DecodeRun& run, HeadId head, MethodResult* result) override;
  Baseline ChooseBaseline(const std::vector<RoundEntry>& entries) override;
  kernels::ChosenPer ChosenPer(const CheckedMethod& asked) const override {
    return ChosenPerOf(*asked.method.decode, *measured_);
  }
  void Finish(const CheckedMethod& asked, const std::vector<RoundEntry>& entries, MethodResult* result) override;

  // Whether there is another implementation's dense decode of these heads.
  bool WantsOther() const;
  // It, on every step.
  kernels::Status PrepareOther();
  // K and V elements that dense decode of the steps has to read, by those that the selections say the method moves.
  double BytesAllow(const DecodeRun& run) const;
  // Reads K and V of every step and does nothing else: the least that dense decode can take, milliseconds a step.
  bool CanRead() const;
  kernels::Status ReadKeysAndValues(double* milliseconds);

  std::vector<kernels::AttentionProblem> other_problems_;
  std::vector<std::unique_ptr<OtherDecode>> other_;  // a step each; empty: there is none
  uint64_t parity_ = 0;                              // of what was read: nobody asks for it
};

}  // namespace headscope::analysis
