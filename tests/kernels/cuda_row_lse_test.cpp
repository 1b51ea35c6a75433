// SPDX-License-Identifier: Apache-2.0
// Both kernels of row LSE, wgmma's (where the GPU has it) and mma.m16n8k16's, against float64 and against each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cuda_reference.h"
#include "cuda_running_lse.h"
#include "cuda_statistics_reference.h"
#include "cuda_statistics_support.h"
#include "kernels/cuda_statistics.h"
#include "statistics/row_lse_mma.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;
using testing::kInfinity;
using testing::StatisticsCase;
using testing::StatisticsProblem;
using testing::WorstError;

// Both kernels of row LSE: the one that the GPU at hand gets, and the twin.
struct RowLseKernel {
  const char* name;
  Status (*run)(const AttentionProblem&, int32_t window, float* lse, void* stream);
};
constexpr RowLseKernel kRowLseKernels[] = {{"RowLseCuda", RowLseCuda}, {"RowLseMma", statistics::RowLseMma}};

std::vector<float> RunRowLse(const RowLseKernel& kernel, const AttentionProblem& device_problem, int32_t window) {
  constexpr int64_t kGuard = 512;
  const int64_t rows = int64_t{device_problem.batch} * device_problem.num_qo_heads * device_problem.seq_q;
  const DeviceArray<float> lse(std::vector<float>(static_cast<size_t>(rows + kGuard), 1e30f));
  const Status status = kernel.run(device_problem, window, lse.get(), nullptr);
  EXPECT_TRUE(status.ok()) << kernel.name << ": " << status.message();
  std::vector<float> values = lse.Download();
  for (int64_t i = 0; i < kGuard; ++i) EXPECT_EQ(values[static_cast<size_t>(rows + i)], 1e30f) << kernel.name;
  values.resize(static_cast<size_t>(rows));
  return values;
}

class CudaRowLseTest : public ::testing::TestWithParam<StatisticsCase> {};

TEST_P(CudaRowLseTest, EveryRow) {
  SKIP_WITHOUT_GPU();
  const StatisticsProblem data(GetParam(), 11);
  const AttentionProblem& host = data.problem();
  const auto upload = [](const StridedTensor<const void>& tensor, int64_t count) {
    const auto* const values = static_cast<const uint16_t*>(tensor.data);
    return DeviceArray<uint16_t>(std::vector<uint16_t>(values, values + count));
  };
  const DeviceArray<uint16_t> q = upload(host.q, host.batch * host.q.batch_stride);
  const DeviceArray<uint16_t> k = upload(host.k, host.batch * host.k.batch_stride);
  AttentionProblem problem = host;
  problem.q.data = q.get();
  problem.k.data = k.get();
  for (const RowLseKernel& kernel : kRowLseKernels) {
    const std::vector<float> lse = RunRowLse(kernel, problem, GetParam().window);
    WorstError worst;
    for (size_t row = 0; row < lse.size(); ++row) {
      if (data.lse()[row] == -kInfinity) {
        EXPECT_EQ(lse[row], -std::numeric_limits<float>::infinity()) << kernel.name << ", row " << row;
      } else {
        worst.Add(static_cast<double>(lse[row]), data.lse()[row], 5e-6 + 2e-6 * data.largest_score(), 0);
      }
    }
    worst.Check(kernel.name);
  }
  // A sink is one more term, of rows that attend to nothing as well.
  std::vector<float> sinks;
  for (int32_t head = 0; head < host.num_qo_heads; ++head)
    sinks.push_back(head % 4 == 0 ? 3.0f : head % 4 == 1 ? -5.0f : head % 4 == 2 ? 30.0f : -1e4f);
  problem.sinks = sinks.data();
  for (const RowLseKernel& kernel : kRowLseKernels) {
    const std::vector<float> lse = RunRowLse(kernel, problem, GetParam().window);
    WorstError worst;
    for (size_t row = 0; row < lse.size(); ++row) {
      const auto head = row / static_cast<size_t>(host.seq_q) % static_cast<size_t>(host.num_qo_heads);
      const auto sink = static_cast<double>(sinks[head]);
      const double largest = std::max(sink, data.lse()[row]);
      const double expected = largest + std::log(std::exp(sink - largest) + std::exp(data.lse()[row] - largest));
      worst.Add(static_cast<double>(lse[row]), expected, 5e-6 + 2e-6 * data.largest_score(), 1e-7);
    }
    worst.Check((std::string(kernel.name) + ", sinks").c_str());
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaRowLseTest, ::testing::ValuesIn(testing::kStatisticsCases),
                         [](const auto& instance) { return testing::NameOf(instance.param); });

// More work items than the GPU has multiprocessors, so that blocks take several and share them out: chosen rows against
// float64, and every row against the twin.
class CudaLongRowLseTest : public ::testing::TestWithParam<StatisticsCase> {};

TEST_P(CudaLongRowLseTest, ManyItems) {
  SKIP_WITHOUT_GPU();
  const StatisticsCase& shape = GetParam();
  const int64_t q_rows = int64_t{shape.batch} * shape.num_qo_heads * shape.seq_q;
  const int64_t k_rows = int64_t{shape.batch} * shape.num_kv_heads * shape.seq_k;
  const DeviceArray<uint16_t> q(q_rows * shape.head_dim), k(k_rows * shape.head_dim);
  ASSERT_TRUE(testing::FillNormal(shape.dtype, q.get(), q_rows * shape.head_dim, 1.6f, 3));
  ASSERT_TRUE(testing::FillNormal(shape.dtype, k.get(), k_rows * shape.head_dim, 1.6f, 4));
  AttentionProblem problem = testing::ProblemOf(shape, q.get(), k.get());
  problem.v = problem.k;  // for the reference, which computes O as well

  std::vector<testing::ReferenceRow> rows;
  std::vector<uint8_t> mask;
  for (int32_t i = 0; i < 60; ++i) {
    // Strides that are prime to the numbers of heads and rows.
    const int32_t row = static_cast<int32_t>((int64_t{i} * 977 + 5) % shape.seq_q);
    rows.push_back({i % shape.batch, i * 7 % shape.num_qo_heads, row});
    for (int32_t column = 0; column < shape.seq_k; ++column) {
      const int64_t distance = int64_t{shape.first_position} + row - column;
      mask.push_back(distance >= 0 && (shape.window == 0 || distance < shape.window) ? 1 : 0);
    }
  }
  std::vector<double> o, expected;
  ASSERT_TRUE(testing::ReferenceRowsOnGpu(problem, rows, mask, &o, &expected));
  std::vector<float> of_kernel[2];
  for (size_t i = 0; i < 2; ++i) {
    of_kernel[i] = RunRowLse(kRowLseKernels[i], problem, shape.window);
    WorstError worst;
    for (size_t r = 0; r < rows.size(); ++r) {
      const int64_t slot = (int64_t{rows[r].sequence} * shape.num_qo_heads + rows[r].head) * shape.seq_q + rows[r].row;
      // Scores have a standard deviation of 2.6 and stay below 15.
      worst.Add(static_cast<double>(of_kernel[i][static_cast<size_t>(slot)]), expected[r], 5e-6 + 2e-6 * 15, 0);
    }
    worst.Check(kRowLseKernels[i].name);
  }
  WorstError worst;
  for (size_t row = 0; row < of_kernel[0].size(); ++row) {
    worst.Add(static_cast<double>(of_kernel[0][row]), static_cast<double>(of_kernel[1][row]), 5e-6 + 2e-6 * 15, 0);
  }
  worst.Check("all rows");
  EXPECT_EQ(RunRowLse(kRowLseKernels[0], problem, shape.window), of_kernel[0]) << "a second run gives other bits";
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaLongRowLseTest,
                         ::testing::Values(StatisticsCase{DType::kBFloat16, 128, 1, 20, 4, 5000, 5000, 0, 0, 0.0f},
                                           StatisticsCase{DType::kFloat16, 64, 3, 16, 2, 3000, 3000, 0, 0, 0.0f},
                                           StatisticsCase{DType::kBFloat16, 256, 1, 12, 12, 4500, 6000, 1500, 0, 0.0f},
                                           StatisticsCase{DType::kFloat16, 96, 1, 40, 8, 2500, 2500, 0, 1000, 0.0f},
                                           StatisticsCase{DType::kFloat16, 128, 2, 9, 3, 3001, 3001, 0, 0, 30.0f}),
                         [](const auto& instance) { return testing::NameOf(instance.param); });

// What a reference that is raised lazily must get right, and numbers that are none.
TEST(CudaRowLse, AnyScores) {
  SKIP_WITHOUT_GPU();
  constexpr int32_t kTokens = 3000;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  struct Pattern {
    const char* name;
    std::function<double(int32_t key)> score;
  };
  const Pattern patterns[] = {
      {"rising to the left", [](int32_t key) { return 2.0 * (kTokens - key); }},
      {"rising to the right", [](int32_t key) { return 2.0 * key - 4000.0; }},
      {"slowly to the left", [](int32_t key) { return 0.03125 * (kTokens - key); }},
      {"far apart", [](int32_t key) { return key % 2 == 0 ? 900.0 : -900.0; }},
      {"huge", [](int32_t) { return 1.0e7; }},
      {"hugely negative", [](int32_t) { return -1.0e7; }},
      {"one key above all", [](int32_t key) { return key == 77 ? 500.0 : 0.0; }},
      {"minus infinity first", [](int32_t key) { return key < 1500 ? -kInfinity : 1.0; }},
      {"minus infinity between", [](int32_t key) { return key % 3 == 0 ? 2.0 : -kInfinity; }},
      {"not a number from 1700 on", [](int32_t key) { return key == 1700 ? kNaN : 0.5; }},
  };
  for (const Pattern& pattern : patterns) {
    std::vector<float> scores;
    for (int32_t key = 0; key < kTokens; ++key) scores.push_back(static_cast<float>(pattern.score(key)));
    const testing::OneComponentProblem one(scores);
    for (const RowLseKernel& kernel : kRowLseKernels) {
      SCOPED_TRACE(kernel.name);
      testing::ExpectRunningLse(RunRowLse(kernel, one.problem(), 0), one.scores(), pattern.name);
    }
  }
}

}  // namespace
}  // namespace headscope::kernels
