// Decode methods on a head: its last recorded rows, one generation step each, beside dense decode.
#pragma once

#include <vector>

#include "analysis/compare.h"
#include "kernels/status.h"

namespace headscope::analysis {

// A step is the row's query over the keys and values up to its own position. The head runs by itself: a KV group of one
// query head. Times are milliseconds per step, mean over the steps of one repeat, median over repeats.
class DecodeComparison {
 public:
  DecodeComparison(HeadTensorsPtr head, const CompareOptions& options);
  kernels::Status Run(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                      MethodResult* result);

 private:
  // What one method did on all steps.
  struct Outcome {
    std::vector<kernels::DecodeSelection> selections;  // per step
    std::vector<float> o;                              // [steps, head_dim]
    std::vector<double> select_ms, attend_ms;          // per repeat, per step
  };
  kernels::AttentionProblem StepProblem(int64_t step) const;
  kernels::Status Measure(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                          Outcome* outcome) const;
  // Mass of the selected tokens of one step, by the recorded LSE.
  double SelectedMass(int64_t step, const kernels::DecodeSelection& selection) const;

  HeadTensorsPtr head_;
  CompareOptions options_;
  int64_t first_row_ = 0, num_steps_ = 0;
  bool has_dense_ = false;
  Outcome dense_;
};

}  // namespace headscope::analysis
