// SPDX-License-Identifier: Apache-2.0
// A statistic that an extension adds has no kernel for GPUs: of a head on the GPU, the CPU computes it from the rows'
// probabilities, the result says so, and everything else is still the GPU's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/statistics.h"
#include "analysis/types/head_statistics.h"
#include "head/head_on_gpu.h"
#include "head_pair.h"
#include "support/gpu.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// By its definition, in float64.
double MeanEffectiveKeys(const HeadTensors& head) {
  const std::vector<double> p = testing::AllProbabilities(head);
  double sum = 0;
  for (int64_t row = 0; row < head.num_rows; ++row) {
    double squares = 0;
    for (int64_t column = 0; column < head.num_tokens; ++column) {
      const double one = p[static_cast<size_t>(row * head.num_tokens + column)];
      squares += one * one;
    }
    sum += 1 / squares;
  }
  return sum / static_cast<double>(head.num_rows);
}

// (On the CPU, this runs everywhere.)
TEST(ExtensionStatistic, IsThatOfItsDefinition) {
  const HeadTensors head = testing::Bf16Head({.num_tokens = 300, .head_dim = 64}, 31);
  const HeadStatistics statistics = ComputeStatistics(head, {});
  const double expected = MeanEffectiveKeys(head);
  EXPECT_NEAR(MetricValue(statistics, "effective_keys"), expected, 1e-4 * expected);
  EXPECT_EQ(statistics.device, NamedCpu());
  EXPECT_EQ(statistics.note, "");
}

TEST(ExtensionStatistic, OfAHeadOnTheGpuIsTheCpusAndSaysSo) {
  SKIP_WITHOUT_GPU();
  const HeadTensors head = testing::Bf16Head({.num_tokens = 300, .head_dim = 64}, 31);
  HeadTensors on_gpu = head;
  on_gpu.gpu_device = {CudaDevice(0), "the GPU"};
  ASSERT_TRUE(CopyToGpu(CudaDevice(0), &on_gpu).ok());
  const HeadStatistics cpu = ComputeStatistics(head, {}), gpu = ComputeStatistics(on_gpu, {});
  EXPECT_EQ(gpu.device, on_gpu.gpu_device);
  EXPECT_THAT(gpu.note, AllOf(HasSubstr("effective_keys"), EndsWith("computed on the CPU")));
  const double expected = MeanEffectiveKeys(head);
  EXPECT_NEAR(MetricValue(gpu, "effective_keys"), expected, 1e-4 * expected);
  for (const char* name : {"entropy", "sink_mass", "local_mass", "row_maximum"})
    EXPECT_NEAR(MetricValue(gpu, name), MetricValue(cpu, name), 1e-4) << name;
}

}  // namespace
}  // namespace headscope::analysis
