// What measured runs on the GPU have in common, prefill and decode: one head there, a clock, and the repeats.
#pragma once

#include <cstdint>
#include <memory>

#include "analysis/compare.h"
#include "compare/gpu_clock.h"
#include "compare/gpu_head.h"
#include "kernels/parallel.h"
#include "kernels/status.h"

namespace headscope::analysis {

struct TimedGpuHead {
  std::unique_ptr<GpuHead> head;
  std::unique_ptr<GpuClock> clock;
  CompareOptions options;

  // Errors: those of GpuHead and of GpuClock.
  static kernels::Status Create(HeadTensorsPtr head, const CompareOptions& options, TimedGpuHead* made);

  // Calls body(repeat) for every timed repeat, 0 to options.repeats - 1. Errors: kCancelled between two of them; the
  // body's.
  template <typename Body>
  kernels::Status Repeat(const Body& body) const {
    for (int32_t repeat = 0; repeat < options.repeats; ++repeat) {
      if (kernels::IsCancelled(options.cancelled)) return {kernels::StatusCode::kCancelled, "cancelled"};
      if (kernels::Status status = body(repeat); !status.ok()) return status;
    }
    return {};
  }
};

}  // namespace headscope::analysis
