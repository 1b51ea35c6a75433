#include "compare/timed_gpu_head.h"

#include <utility>

namespace headscope::analysis {

using kernels::Status;

Status TimedGpuHead::Create(HeadTensorsPtr head, const CompareOptions& options, TimedGpuHead* made) {
  TimedGpuHead timed;
  timed.options = options;
  if (Status status = GpuHead::Create(std::move(head), &timed.head); !status.ok()) return status;
  if (Status status = GpuClock::Create(&timed.clock); !status.ok()) return status;
  *made = std::move(timed);
  return {};
}

}  // namespace headscope::analysis
