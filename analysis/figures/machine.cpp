// SPDX-License-Identifier: Apache-2.0
#include "figures/machine.h"

#include "base/stopwatch.h"
#include "kernels/cpu_scores.h"
#include "kernels/parallel.h"

namespace headscope::analysis {

void ReadAll(const float* values, int64_t count) {
  // Kept, so that the reading is; by each thread for itself.
  [[maybe_unused]] thread_local volatile float largest = 0;
  largest = kernels::MaxOf(values, count);
}

void ReadAll(const std::vector<float>& values) {
  ReadAll(values.data(), static_cast<int64_t>(values.size()));
}

Machine MeasureMachine(int32_t num_threads) {
  constexpr int32_t kTokens = 512, kDim = 128, kRows = 16;
  const std::vector<float> keys(static_cast<size_t>(kTokens * kDim), 0.5f), q(static_cast<size_t>(kRows * kDim), 0.25f);
  const kernels::PackedKeys packed(keys.data(), kernels::DType::kFloat32, kDim, kTokens, kDim);
  constexpr int kCalls = 50;
  Machine machine;
  // Every thread does all of the work, so that starting it is a small part.
  const auto by_all = [num_threads](const auto& work) {
    constexpr int kRuns = 5;
    return FastestSecondsOf(kRuns, [&] { kernels::ParallelFor(num_threads, num_threads, {}, work); });
  };
  machine.multiply_adds =
      static_cast<double>(num_threads) * kCalls * kTokens * kDim * kRows / by_all([&](int64_t, int32_t) {
        std::vector<float> scores(static_cast<size_t>(kRows * kTokens));
        for (int call = 0; call < kCalls; ++call)
          kernels::ScoreBlock(q.data(), kDim, kRows, packed, 0, kTokens, 1, 0, scores.data(), kTokens);
      });
  const std::vector<float> large(size_t{1} << 26, 1.0f);
  const auto part = static_cast<int64_t>(large.size()) / num_threads;
  machine.elements = static_cast<double>(part) * num_threads /
                     by_all([&](int64_t thread, int32_t) { ReadAll(large.data() + thread * part, part); });
  return machine;
}

}  // namespace headscope::analysis
