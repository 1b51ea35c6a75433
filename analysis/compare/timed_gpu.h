// SPDX-License-Identifier: Apache-2.0
// What measured runs on the GPU have in common, prefill and decode: the heads there, and a clock.
#pragma once

#include <memory>
#include <utility>

#include "analysis/compare.h"
#include "compare/gpu_clock.h"
#include "compare/gpu_heads.h"
#include "kernels/status.h"

namespace headscope::analysis {

struct TimedGpu {
  std::unique_ptr<GpuHeads> heads;
  std::unique_ptr<GpuClock> clock;
  CompareOptions options;

  // Errors: those of GpuHeads and of GpuClock.
  static kernels::Status Create(MeasuredHeadsPtr heads, const CompareOptions& options, TimedGpu* made) {
    TimedGpu timed;
    timed.options = options;
    if (kernels::Status status = GpuHeads::Create(std::move(heads), &timed.heads); !status.ok()) return status;
    if (kernels::Status status = GpuClock::Create(&timed.clock); !status.ok()) return status;
    *made = std::move(timed);
    return {};
  }
};

}  // namespace headscope::analysis
