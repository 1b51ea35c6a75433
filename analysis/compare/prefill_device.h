// SPDX-License-Identifier: Apache-2.0
// Where prefill methods select and attend: the CPU, or the GPU.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/measured_heads.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

// What a method made of the heads.
struct PrefillRun {
  kernels::SparseIndex index;  // on the host, inside the model's window
  std::vector<float> o;        // [num_qo_heads, num_rows, v_head_dim]
  NamedDevice select_device;
  std::string note;  // why selection did not run where attention did, and what no head keeps; else empty
};

// A method, ready to be run again.
class PrefillWork {
 public:
  virtual ~PrefillWork() = default;
  // Selects and attends once; the output is dropped.
  virtual kernels::Status Once(double* select_ms, double* attend_ms) = 0;
};

class PrefillDevice {
 public:
  virtual ~PrefillDevice() = default;
  virtual const NamedDevice& where() const = 0;
  // The problem as this device computes it, in host memory (the GPU's is in 16 bits).
  virtual kernels::AttentionProblem Problem() const = 0;
  // One run, which warms up and makes the index and the output. `values` are the method's and outlive the work, as the
  // device does.
  virtual kernels::Status Prepare(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                                  PrefillRun* run, std::unique_ptr<PrefillWork>* work) = 0;
  // From the next call on this stops the runs, those of prepared work too, in place of the options' own.
  virtual void StopBy(std::stop_token stop) = 0;
};

// By options.device; the device keeps a copy of the options. Errors: no GPU; too little memory there.
kernels::Status MakePrefillDevice(MeasuredHeadsPtr heads, const CompareOptions& options,
                                  std::unique_ptr<PrefillDevice>* made);
// The GPU's alone (gpu_prefill.cpp; a build without CUDA refuses).
kernels::Status MakeGpuPrefill(MeasuredHeadsPtr heads, const CompareOptions& options,
                               std::unique_ptr<PrefillDevice>* made);

// Selects on the CPU, once.
kernels::Status SelectTimed(const MeasuredHeads& heads, const kernels::PrefillMethod& method,
                            const kernels::ParameterValues& values, const CompareOptions& options,
                            kernels::SparseIndex* index, double* milliseconds);

}  // namespace headscope::analysis
