// Soft caps of any height in the GPU's row LSE, both kernels: scores far below the cap, about it and far above, against
// float64. The executors' own cases are in cuda_attend_test.cpp. Skipped without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cuda_statistics_support.h"
#include "kernels/cuda_statistics.h"
#include "run_seed.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;
using testing::WorstError;

struct Scores {
  float soft_cap;
  float deviation;  // of the scores before the cap
};

class CudaSoftCap : public ::testing::TestWithParam<Scores> {};

// Scores are one number per key, so that a row's LSE is a running sum.
TEST_P(CudaSoftCap, RowLseMatchesFloat64) {
  SKIP_WITHOUT_GPU();
  constexpr int32_t kTokens = 1000;
  constexpr int32_t kHeadDim = 64;
  const auto [soft_cap, deviation] = GetParam();
  std::mt19937 random(testing::SeedFor("soft cap " + std::to_string(soft_cap) + " " + std::to_string(deviation)));
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<uint16_t> q(size_t{kTokens} * kHeadDim, 0), k(q);
  std::vector<double> scores;
  for (size_t token = 0; token < kTokens; ++token) {
    q[token * kHeadDim] = 0x3f80;  // 1 in bf16
    const auto code = static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(random)) >> 16);
    k[token * kHeadDim] = code;
    const auto cap = static_cast<double>(soft_cap);
    scores.push_back(cap * std::tanh(static_cast<double>(std::bit_cast<float>(uint32_t{code} << 16)) / cap));
  }
  const DeviceArray<uint16_t> device_q(q), device_k(k);
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = kHeadDim;
  problem.seq_q = problem.seq_k = kTokens;
  problem.dtype = DType::kBFloat16;
  problem.scale = 1.0f;
  problem.soft_cap = soft_cap;
  problem.q = {device_q.get(), 0, 0, kHeadDim};
  problem.k = {device_k.get(), 0, 0, kHeadDim};
  for (const bool twin : {false, true}) {
    const DeviceArray<float> device_lse(std::vector<float>(kTokens, std::numeric_limits<float>::quiet_NaN()));
    const Status status =
        twin ? RowLseCudaMma(problem, 0, device_lse.get(), nullptr) : RowLseCuda(problem, 0, device_lse.get(), nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<float> lse = device_lse.Download();
    double largest = -testing::kInfinity, sum = 0, largest_magnitude = 0;
    WorstError worst;
    for (size_t row = 0; row < kTokens; ++row) {
      const double raised = std::max(largest, scores[row]);
      sum = sum * std::exp(largest - raised) + std::exp(scores[row] - raised);
      largest = raised;
      largest_magnitude = std::max(largest_magnitude, std::abs(scores[row]));
      worst.Add(static_cast<double>(lse[row]), largest + std::log(sum), 5e-6 + 2e-6 * largest_magnitude, 0);
    }
    worst.Check(twin ? "mma" : "row LSE");
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
