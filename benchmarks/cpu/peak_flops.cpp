// SPDX-License-Identifier: Apache-2.0
#include "peak_flops.h"

#include <algorithm>
#include <cstdint>
#include <ctime>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "peak_flops.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace headscope::benchmarks::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Ten independent chains cover the latency of a multiply-add (4 to 5 cycles on two ports) and fit 16 registers with the
// two operands.
constexpr int kChains = 10;

// `steps` rounds of kChains multiply-adds; returns the number of floating-point operations. *sink keeps the compiler
// from dropping them.
int64_t MultiplyAddRounds(int64_t steps, float* sink) {
  const hn::ScalableTag<float> df;
  const auto factor = hn::Set(df, 0.999f);
  const auto term = hn::Set(df, 0.001f);
  hn::Vec<decltype(df)> chain[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) chain[i] = hn::Set(df, static_cast<float>(i));
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) chain[i] = hn::MulAdd(chain[i], factor, term);
  }
  auto total = chain[0];
#pragma GCC unroll 16
  for (int i = 1; i < kChains; ++i) total = hn::Add(total, chain[i]);
  *sink = hn::GetLane(hn::SumOfLanes(df, total));
  return steps * kChains * 2 * static_cast<int64_t>(hn::Lanes(df));
}

const char* NameOfTarget() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace headscope::benchmarks::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::benchmarks {

HWY_EXPORT(MultiplyAddRounds);
HWY_EXPORT(NameOfTarget);

namespace {

// Time that this thread ran: others on the machine do not lower the peak.
double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double MeasurePeakFlops() {
  volatile float keep = 0;
  double best = 0;
  for (int repeat = 0; repeat < 9; ++repeat) {
    float sink = 0;
    const double start = ThreadSeconds();
    const int64_t operations = HWY_DYNAMIC_DISPATCH(MultiplyAddRounds)(4'000'000, &sink);
    const double seconds = ThreadSeconds() - start;
    keep = sink;
    best = std::max(best, static_cast<double>(operations) / seconds);
  }
  static_cast<void>(keep);
  return best;
}

std::string PeakTarget() {
  return HWY_DYNAMIC_DISPATCH(NameOfTarget)();
}

}  // namespace headscope::benchmarks
#endif  // HWY_ONCE
