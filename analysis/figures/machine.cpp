// SPDX-License-Identifier: Apache-2.0
#include "figures/machine.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "kernels/cpu_scores.h"

namespace headscope::analysis {
namespace {

double LeastSecondsOf(const std::function<void()>& work) {
  constexpr int kRepeats = 5;
  double least = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < kRepeats; ++repeat) least = std::min(least, SecondsOf(work));
  return least;
}

}  // namespace

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void ReadAll(const std::vector<float>& values) {
  // Kept, so that the reading is.
  [[maybe_unused]] static volatile float largest = 0;
  largest = kernels::MaxOf(values.data(), static_cast<int64_t>(values.size()));
}

Machine MeasureMachine() {
  constexpr int32_t kTokens = 512, kDim = 128, kRows = 16;
  const std::vector<float> keys(static_cast<size_t>(kTokens * kDim), 0.5f), q(static_cast<size_t>(kRows * kDim), 0.25f);
  const kernels::PackedKeys packed(keys.data(), kernels::DType::kFloat32, kDim, kTokens, kDim);
  std::vector<float> scores(static_cast<size_t>(kRows * kTokens));
  constexpr int kCalls = 50;
  Machine machine;
  machine.multiply_adds =
      static_cast<double>(kCalls) * kTokens * kDim * kRows / LeastSecondsOf([&] {
        for (int call = 0; call < kCalls; ++call)
          kernels::ScoreBlock(q.data(), kDim, kRows, packed, 0, kTokens, 1, 0, scores.data(), kTokens);
      });
  const std::vector<float> large(size_t{1} << 26, 1.0f);
  machine.elements = static_cast<double>(large.size()) / LeastSecondsOf([&] { ReadAll(large); });
  return machine;
}

}  // namespace headscope::analysis
