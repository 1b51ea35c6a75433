// SPDX-License-Identifier: Apache-2.0
// A head under a slider on the GPU: what LiveHead asks of it. Apart from it so that the rest of a live head knows no
// CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/live_head.h"
#include "analysis/types/live_run.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

// Callable from any thread; calls wait for each other.
class LiveGpu {
 public:
  virtual ~LiveGpu() = default;

  // As SelectOnHead, by the method's selector for GPUs, which took select_ms by the GPU's clock. kUnsupported says why
  // the CPU has to select.
  virtual kernels::Status Select(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                                 kernels::SparseIndex* index, double* select_ms) = 0;
  // Attends to a host index, once, and appends these rows of the output, in order, fp32.
  virtual kernels::Status Attend(const kernels::SparseIndexView& index, std::span<const LiveRows> rows,
                                 std::vector<float>* outputs) = 0;
  // The same of dense attention.
  virtual kernels::Status AttendDense(std::span<const LiveRows> rows, std::vector<float>* outputs) = 0;
  // Times the method and dense attention in turn, in the rounds of a measured comparison, by the GPU's clock: each
  // selects first where the GPU has its selector. `index` is the method's. Sets the run's times, and its device.
  virtual kernels::Status Time(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                               const kernels::SparseIndexView& index, const std::stop_token& stop, LiveRun* run) = 0;
};

// Of a head that lies on a GPU. Errors: kUnsupported where V would be rounded there; kOutOfMemory; the GPU's; a build
// without CUDA.
kernels::Status MakeLiveGpu(const HeadTensorsPtr& head, std::unique_ptr<LiveGpu>* made);

}  // namespace headscope::analysis
