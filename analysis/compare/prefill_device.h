// Where prefill methods select and attend on one head: the CPU, or the GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/head_tensors.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

// What a method made of a head, and how long that took.
struct PrefillRun {
  kernels::SparseIndex index;                // on the host, inside the model's window
  std::vector<float> o;                      // [num_rows, head_dim]
  std::vector<double> select_ms, attend_ms;  // of every timed repeat
  std::vector<double> beside_ms;             // of attention that was timed in turn with this one's (RunBeside)
  std::string select_device;                 // "cpu", or the GPU's name
  std::string note;                          // why selection did not run where attention did; else empty
};

class PrefillDevice {
 public:
  virtual ~PrefillDevice() = default;
  // "cpu", or the GPU's name.
  virtual const std::string& name() const = 0;
  // The problem as this device computes it, in host memory (the GPU's is in 16 bits).
  virtual kernels::AttentionProblem Problem() const = 0;
  // One run that warms up and makes the index and the output, then the timed ones. `values` are the method's.
  virtual kernels::Status Run(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                              PrefillRun* run) = 0;
  // As Run. A device that shares its processors with other work times attention over `beside` in turn with the
  // method's, so that both meet the same disturbance and their ratio holds whatever that is; others leave beside_ms
  // empty.
  virtual kernels::Status RunBeside([[maybe_unused]] const kernels::SparseIndex& beside,
                                    const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                                    PrefillRun* run) {
    return Run(method, values, run);
  }
};

// By options.device, "cpu" or "cuda". Errors: another word; no GPU; too little memory there.
kernels::Status MakePrefillDevice(HeadTensorsPtr head, const CompareOptions& options,
                                  std::unique_ptr<PrefillDevice>* made);
// The GPU's alone (gpu_prefill.cpp; a build without CUDA refuses).
kernels::Status MakeGpuPrefill(HeadTensorsPtr head, const CompareOptions& options,
                               std::unique_ptr<PrefillDevice>* made);

// Selects on the CPU: one run that warms up, then options.repeats timed ones. Sets the run's index, select_ms and
// select_device.
kernels::Status SelectTimed(const HeadTensors& head, const kernels::PrefillMethod& method,
                            const kernels::ParameterValues& values, const CompareOptions& options, PrefillRun* run);

}  // namespace headscope::analysis
