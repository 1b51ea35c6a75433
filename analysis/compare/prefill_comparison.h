// Prefill methods on a head: all its recorded rows at once, beside dense attention.
#pragma once

#include <memory>
#include <vector>

#include "analysis/compare.h"
#include "compare/prefill_device.h"
#include "kernels/status.h"

namespace headscope::analysis {

class PrefillComparison {
 public:
  PrefillComparison(HeadTensorsPtr head, const CompareOptions& options);
  // Fills the result but for its head and parameters. Dense is measured by the first call that succeeds.
  kernels::Status Run(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                      MethodResult* result);

 private:
  kernels::Status RunDense(PrefillRun* run);
  kernels::Status MeasureDense();
  // Other work on the machine only adds time, and a few short repeats are soon spoilt: the baseline is the least median
  // of those taken so far.
  kernels::Status MeasureDenseAgain();
  // Kept share, kept mass and the executor's own error.
  kernels::Status Judge(const PrefillRun& run, MethodResult* result) const;
  // Relative error of the executor itself on rows spread evenly from the first to the last.
  kernels::Status KernelError(const PrefillRun& run, double* error) const;

  const HeadTensorsPtr head_;
  const CompareOptions options_;
  std::unique_ptr<PrefillDevice> device_;
  PrefillRun dense_;  // the baseline; its output is empty until measured
  Timing dense_attend_;
};

}  // namespace headscope::analysis
