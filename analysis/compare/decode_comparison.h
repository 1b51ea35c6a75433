// SPDX-License-Identifier: Apache-2.0
// Decode methods: the last recorded rows, one generation step each, beside dense decode.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/compare.h"
#include "compare/checked_method.h"
#include "compare/decode_device.h"
#include "compare/decode_steps.h"
#include "compare/judged_heads.h"
#include "kernels/status.h"

namespace headscope::analysis {

class DecodeComparison {
 public:
  DecodeComparison(MeasuredHeadsPtr measured, const CompareOptions& options);
  // Fills results[head * methods.size() + method] for the decode methods among `methods`, but for what is the same of
  // both phases. Dense decode is over in a fraction of a second and measured by every call.
  kernels::Status Run(const std::vector<CheckedMethod>& methods, const std::vector<HeadId>& heads,
                      std::vector<MethodResult>* results);

 private:
  // `asked`: whom a refusal names.
  kernels::Status PrepareDense(HeadId asked);
  // Another implementation's dense decode of every step; empty where there is none.
  kernels::Status PrepareOther();
  // Kept share, kept mass, distance from dense and the executor's own error, of one head.
  kernels::Status Judge(const DecodeRun& run, HeadId head, MethodResult* result);
  // K and V elements that dense decode of the steps has to read, by those that the selections say the method moves.
  double BytesAllow(const DecodeRun& run) const;
  // Reads K and V of every step and does nothing else: the least that dense decode can take, milliseconds a step.
  bool CanRead() const;
  kernels::Status ReadKeysAndValues(double* milliseconds);

  const MeasuredHeadsPtr measured_;
  const CompareOptions options_;
  const DecodeSteps steps_;
  JudgedHeads judged_;
  std::unique_ptr<DecodeDevice> device_;
  DecodeRun dense_;  // its output is empty until prepared
  std::unique_ptr<DecodeWork> dense_work_;
  std::vector<kernels::AttentionProblem> other_problems_;
  std::vector<std::unique_ptr<OtherDecode>> other_;
  uint64_t parity_ = 0;  // of what was read: nobody asks for it
};

}  // namespace headscope::analysis
