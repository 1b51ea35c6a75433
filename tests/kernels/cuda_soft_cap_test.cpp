// SPDX-License-Identifier: Apache-2.0
// Soft caps of any height in the GPU's row LSE, both kernels: scores far below the cap, about it and far above, against
// float64. The executors' own cases are in cuda_attend_test.cpp. Skipped without a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cuda_running_lse.h"
#include "kernels/cuda_statistics.h"
#include "run_seed.h"
#include "statistics/row_lse_mma.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;

struct Scores {
  float soft_cap;
  float deviation;  // of the scores before the cap
};

class CudaSoftCap : public ::testing::TestWithParam<Scores> {};

TEST_P(CudaSoftCap, RowLseMatchesFloat64) {
  SKIP_WITHOUT_GPU();
  const auto [soft_cap, deviation] = GetParam();
  std::mt19937 random(testing::SeedFor("soft cap " + std::to_string(soft_cap) + " " + std::to_string(deviation)));
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> scores(1000);
  for (float& score : scores) score = normal(random);
  const testing::OneComponentProblem one(scores, soft_cap);
  std::vector<double> capped;
  for (const double score : one.scores()) {
    const auto cap = static_cast<double>(soft_cap);
    capped.push_back(cap * std::tanh(score / cap));
  }
  for (const bool twin : {false, true}) {
    const DeviceArray<float> lse(std::vector<float>(scores.size(), std::numeric_limits<float>::quiet_NaN()));
    const Status status = twin ? statistics::RowLseMma(one.problem(), 0, lse.get(), nullptr)
                               : RowLseCuda(one.problem(), 0, lse.get(), nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    testing::ExpectRunningLse(lse.Download(), capped, twin ? "mma" : "row LSE");
  }
}

std::vector<Scores> Cases() {
  std::vector<Scores> cases;
  for (const float cap : {5.0f, 50.0f, 1e3f, 1e5f}) {
    for (const float deviation : {0.01f, 1.0f, 20.0f, 0.3f * cap, 4.0f * cap}) cases.push_back({cap, deviation});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Caps, CudaSoftCap, ::testing::ValuesIn(Cases()));

}  // namespace
}  // namespace headscope::kernels
