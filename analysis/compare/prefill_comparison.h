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
  kernels::Status MeasureDense();
  // The method beside dense: a short baseline is timed again in turn with it, a long one stays as it is.
  kernels::Status RunBesideDense(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                                 PrefillRun* run);
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
