// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "internal/waiting_threads.h"
#include "kernels/cpu_memory.h"

namespace headscope::kernels {

Status ReadCpu(std::span<const void* const> places, int64_t bytes, const RunOptions& options, uint64_t* parity) {
  std::atomic<uint64_t> joined{0};
  const auto count = static_cast<int64_t>(places.size());
  Status status = internal::ShortParallelFor(count, 1, options, [&](int64_t begin, int64_t end, int32_t) {
    uint64_t mine = 0;
    for (int64_t place = begin; place < end; ++place) {
      const auto* const words = static_cast<const uint64_t*>(places[static_cast<size_t>(place)]);
      for (int64_t i = 0; i < bytes / 8; ++i) mine ^= words[i];
    }
    joined.fetch_xor(mine, std::memory_order_relaxed);
  });
  if (status.ok()) *parity = joined.load();
  return status;
}

}  // namespace headscope::kernels
