// SPDX-License-Identifier: Apache-2.0
// Times of work on the GPU, by its own clock.
//
// Method: a run begins with a read of other data, eight times as much as the L2 cache holds. That leaves nothing of the
// run before in the cache, and it keeps the GPU busy for long enough that the host has handed over the work before the
// GPU comes to it: what a launch costs the host is not in the times. The stages then run back to back, each between two
// CUDA events, and find in the cache what the stage before them has left there.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "kernels/cuda_cold_cache.h"
#include "kernels/cuda_resources.h"
#include "kernels/status.h"

namespace headscope::analysis {

class GpuClock {
 public:
  using Stage = std::function<kernels::Status()>;  // enqueues work on the default stream and does not wait

  static kernels::Status Create(std::unique_ptr<GpuClock>* made);

  // Runs the stages once and waits for them. milliseconds: one time per stage, or null.
  kernels::Status Time(std::initializer_list<Stage> stages, std::vector<double>* milliseconds);

 private:
  GpuClock() = default;
  kernels::Status Record(size_t event);

  kernels::ColdCache cold_;
  std::vector<kernels::CudaEvent> events_;
};

}  // namespace headscope::analysis
