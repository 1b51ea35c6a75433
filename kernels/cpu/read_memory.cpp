// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>

#include "highway_targets.h"
#include "internal/waiting_threads.h"
#include "kernels/cpu_memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "read_memory.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

uint64_t ParityOf(const uint64_t* HWY_RESTRICT words, int64_t count) {
  const hn::ScalableTag<uint64_t> d;
  constexpr int64_t kLanes = HWY_LANES(uint64_t), kChains = 4;
  constexpr int64_t kAhead = 2048 / 8;  // words; the caches' own prefetchers stop at every page
  hn::Vec<decltype(d)> parity[kChains];
#pragma GCC unroll 4
  for (int64_t c = 0; c < kChains; ++c) parity[c] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kChains * kLanes <= count; i += kChains * kLanes) {
#pragma GCC unroll 4
    for (int64_t c = 0; c < kChains; ++c) {
      if (c * kLanes % 8 == 0) __builtin_prefetch(words + i + c * kLanes + kAhead, 0, 2);
      parity[c] = hn::Xor(parity[c], hn::LoadU(d, words + i + c * kLanes));
    }
  }
  const auto all = hn::Xor(hn::Xor(parity[0], parity[1]), hn::Xor(parity[2], parity[3]));
  HWY_ALIGN uint64_t lanes[kLanes];
  hn::Store(all, d, lanes);
  uint64_t result = 0;
  for (const uint64_t lane : lanes) result ^= lane;
  for (; i < count; ++i) result ^= words[i];
  return result;
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::kernels {

HWY_EXPORT(ParityOf);

Status ReadCpu(std::span<const void* const> places, int64_t bytes, const RunOptions& options, uint64_t* parity) {
  constexpr int64_t kChunk = (int64_t{128} << 10) / 8;
  const int64_t words = bytes / 8;
  const int64_t chunks = (words + kChunk - 1) / kChunk;  // of a place
  const auto count = static_cast<int64_t>(places.size()) * chunks;
  std::atomic<uint64_t> joined{0};
  Status status = internal::ShortParallelFor(count, 1, options, [&](int64_t begin, int64_t end, int32_t) {
    uint64_t mine = 0;
    for (int64_t i = begin; i < end; ++i) {
      const auto* const place = static_cast<const uint64_t*>(places[static_cast<size_t>(i / chunks)]);
      const int64_t first = i % chunks * kChunk;
      mine ^= HWY_DYNAMIC_DISPATCH(ParityOf)(place + first, std::min(kChunk, words - first));
    }
    joined.fetch_xor(mine, std::memory_order_relaxed);
  });
  if (status.ok()) *parity = joined.load();
  return status;
}

}  // namespace headscope::kernels
#endif  // HWY_ONCE
