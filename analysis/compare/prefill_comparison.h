// SPDX-License-Identifier: Apache-2.0
// Prefill methods: all recorded rows at once, beside dense attention.
#pragma once

#include <memory>
#include <vector>

#include "analysis/compare.h"
#include "compare/checked_method.h"
#include "compare/judged_heads.h"
#include "compare/prefill_device.h"
#include "kernels/status.h"

namespace headscope::analysis {

class PrefillComparison {
 public:
  PrefillComparison(MeasuredHeadsPtr measured, const CompareOptions& options);
  // Fills results[head * methods.size() + method] for the prefill methods among `methods`, but for what is the same of
  // both phases.
  kernels::Status Run(const std::vector<CheckedMethod>& methods, const std::vector<HeadId>& heads,
                      std::vector<MethodResult>* results);

 private:
  // Makes the device and the baseline's output. Dense is prepared by the first call that succeeds.
  // `asked`: whom a refusal names.
  kernels::Status PrepareDense(HeadId asked);
  // Kept share, kept mass, distance from dense and the executor's own error, of one head.
  kernels::Status Judge(const PrefillRun& run, HeadId head, MethodResult* result);
  // Relative error of the executor itself on rows spread evenly from the first to the last.
  kernels::Status KernelError(const PrefillRun& run, int64_t head, double* error) const;

  const MeasuredHeadsPtr measured_;
  const CompareOptions options_;
  JudgedHeads judged_;
  std::unique_ptr<PrefillDevice> device_;
  PrefillRun dense_;  // its output is empty until prepared
  std::unique_ptr<PrefillWork> dense_work_;
  Timing pinned_;  // a long baseline's; no repeats: there is none
};

}  // namespace headscope::analysis
