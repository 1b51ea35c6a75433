// Where prefill attention of one head is measured: the CPU executor, or the GPU's.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

class PrefillDevice {
 public:
  virtual ~PrefillDevice() = default;
  // "cpu", or the GPU's name.
  virtual const std::string& name() const = 0;
  // The problem as this device computes it (the GPU's is in bf16).
  virtual kernels::AttentionProblem Problem() const = 0;
  // o [num_rows, head_dim] fp32. One run that warms up and makes the output, then `repeats` timed ones: their
  // milliseconds.
  virtual kernels::Status Attend(const kernels::SparseIndexView& index, int32_t repeats, std::vector<float>* o,
                                 std::vector<double>* milliseconds) = 0;
};

// `device` is "cpu" or "cuda". Errors: another word; no GPU; a head that the GPU's executor does not take.
kernels::Status MakePrefillDevice(const std::string& device, HeadTensorsPtr head, int32_t num_threads,
                                  const std::atomic<bool>* cancelled, std::unique_ptr<PrefillDevice>* made);

}  // namespace headscope::analysis
