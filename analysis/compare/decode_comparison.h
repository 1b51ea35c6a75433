// Decode methods on a head: its last recorded rows, one generation step each, beside dense decode.
#pragma once

#include <memory>

#include "analysis/compare.h"
#include "compare/decode_device.h"
#include "compare/decode_steps.h"
#include "kernels/status.h"

namespace headscope::analysis {

class DecodeComparison {
 public:
  DecodeComparison(HeadTensorsPtr head, const CompareOptions& options);
  // Fills the result but for its head and parameters. Dense is measured by the first call that succeeds.
  kernels::Status Run(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                      MethodResult* result);

 private:
  kernels::Status MeasureDense();
  // Kept share, kept mass and the executor's own error.
  kernels::Status Judge(const DecodeRun& run, MethodResult* result) const;

  const HeadTensorsPtr head_;
  const CompareOptions options_;
  const DecodeSteps steps_;
  std::unique_ptr<DecodeDevice> device_;
  std::unique_ptr<DecodeRun> dense_;  // null until measured
};

}  // namespace headscope::analysis
