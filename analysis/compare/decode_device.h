// SPDX-License-Identifier: Apache-2.0
// Where decode methods run: the CPU, or the GPU.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/measured_heads.h"
#include "compare/decode_steps.h"
#include "kernels/decode_method.h"
#include "kernels/status.h"

namespace headscope::analysis {

// What a method made of the steps.
struct DecodeRun {
  std::vector<kernels::DecodeSelection> selections;  // per step, in tokens of its problem
  std::vector<float> o;                              // [steps, num_qo_heads, v_head_dim]
  NamedDevice select_device;
  std::string note;  // what a reader of the numbers must know beside them; else empty
};

// A method, ready to be run again.
class DecodeWork {
 public:
  virtual ~DecodeWork() = default;
  // Selects and attends every step once; the times are a step's, their mean. A device whose kernel selects and attends
  // in one launch counts all of it as attending.
  virtual kernels::Status Once(double* select_ms, double* attend_ms) = 0;
};

class DecodeDevice {
 public:
  virtual ~DecodeDevice() = default;
  virtual const NamedDevice& where() const = 0;
  // The whole problem as this device computes it, in host memory (the GPU's is in 16 bits).
  virtual kernels::AttentionProblem Problem() const = 0;
  // One run of every step, which warms up and makes the output. `run` and `values`, which are the method's, outlive the
  // work, as the device does.
  virtual kernels::Status Prepare(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                  DecodeRun* run, std::unique_ptr<DecodeWork>* work) = 0;
  // From the next call on this stops the runs, those of prepared work too, in place of the options' own.
  virtual void StopBy(std::stop_token stop) = 0;
};

// Whether `selection`, the CPU's, has in each list as many tokens or pages as a GPU's launch chose, so that these may
// take their places. kDeviceError names the step and the list.
kernels::Status CheckChosenCount(const kernels::DecodeSelection& selection, int64_t num_chosen, int64_t step);

// By options.device. `steps` outlives the device, which keeps a copy of the options. Errors: no GPU; too little
// memory there.
kernels::Status MakeDecodeDevice(MeasuredHeadsPtr heads, const DecodeSteps& steps, const CompareOptions& options,
                                 std::unique_ptr<DecodeDevice>* made);
// The GPU's alone (gpu_decode.cpp; a build without CUDA refuses).
kernels::Status MakeGpuDecode(MeasuredHeadsPtr heads, const DecodeSteps& steps, const CompareOptions& options,
                              std::unique_ptr<DecodeDevice>* made);

}  // namespace headscope::analysis
