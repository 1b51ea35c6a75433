// SPDX-License-Identifier: Apache-2.0
#include "compare/gpu_clock.h"

#include <utility>

namespace headscope::analysis {

using kernels::Status;

Status GpuClock::Create(std::unique_ptr<GpuClock>* made) {
  std::unique_ptr<GpuClock> clock(new GpuClock);
  Status status = kernels::ColdCache::Create(&clock->cold_);
  if (status.ok()) *made = std::move(clock);
  return status;
}

Status GpuClock::Record(size_t event) {
  if (event == events_.size()) {
    kernels::CudaEvent created;
    if (Status status = kernels::MakeEvent(&created); !status.ok()) return status;
    events_.push_back(std::move(created));
  }
  return kernels::CudaStatus(cudaEventRecord(events_[event].get(), nullptr), "recording a CUDA event");
}

Status GpuClock::Time(std::initializer_list<Stage> stages, std::vector<double>* milliseconds) {
  Status status = cold_.Fill(nullptr);
  size_t event = 0;
  if (status.ok()) status = Record(event);
  for (const Stage& stage : stages) {
    if (status.ok()) status = stage();
    if (status.ok()) status = Record(++event);
  }
  // Also after an error: what was enqueued may use memory that the caller frees.
  Status finished = kernels::CudaStatus(cudaStreamSynchronize(nullptr), "running a method on the GPU");
  if (!status.ok()) return status;
  if (!finished.ok() || milliseconds == nullptr) return finished;
  milliseconds->clear();
  for (size_t stage = 0; stage < event; ++stage) {
    double elapsed = 0;
    status = kernels::MillisecondsBetween(events_[stage], events_[stage + 1], &elapsed);
    if (!status.ok()) return status;
    milliseconds->push_back(elapsed);
  }
  return {};
}

}  // namespace headscope::analysis
