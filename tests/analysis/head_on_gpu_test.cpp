// SPDX-License-Identifier: Apache-2.0
// A head on the GPU gives the numbers that it gives on the CPU.
#include "head/head_on_gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <numeric>
#include <random>

#include "analysis/compare.h"
#include "analysis/statistics.h"
#include "analysis/tiles.h"
#include "analysis/types/metric_list.h"
#include "analysis/types/timing.h"
#include "head_pair.h"
#include "kernels/cpu_scores.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_statistics.h"
#include "support/gpu.h"
#include "tiles/map_texels.h"

namespace headscope::analysis {
namespace {

using testing::Bf16Head;
using testing::HeadPair;
using testing::OnBoth;
using testing::RandomHeadShape;
using testing::RandomIndex;

class HeadOnGpu : public ::testing::TestWithParam<RandomHeadShape> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    pair_ = OnBoth(GetParam(), 3);
    ASSERT_NE(pair_.gpu->gpu, nullptr);
  }
  HeadPair pair_;
};

TEST_P(HeadOnGpu, KeptMassIsTheCpus) {
  for (const int32_t tile_rows : {64, 128}) {
    for (const kernels::ElementRule rule :
         {kernels::ElementRule{}, kernels::ElementRule{kernels::MaskKind::kCausalWindow, 70, 3}}) {
      const kernels::SparseIndex index = RandomIndex(*pair_.cpu, tile_rows, rule, 7);
      std::vector<float> cpu, gpu, by_block;
      ASSERT_TRUE(KeptMass(*pair_.cpu, index.View(), 2, {}, &cpu).ok());
      ASSERT_TRUE(KeptMass(*pair_.gpu, index.View(), 2, {}, &gpu).ok());
      const auto mass = HeadMass::Compute(pair_.gpu, 2, {});
      ASSERT_NE(mass, nullptr);
      ASSERT_TRUE(mass->KeptMass(index.View(), 2, {}, &by_block).ok());
      for (size_t row = 0; row < cpu.size(); ++row) ASSERT_NEAR(gpu[row], cpu[row], 1e-5f) << row;
      EXPECT_EQ(by_block, gpu);
    }
  }
}

void ExpectSameTile(const TileData& gpu, const TileData& cpu) {
  ASSERT_EQ(gpu.key, cpu.key);
  for (size_t texel = 0; texel < cpu.log2_p.size(); ++texel) {
    if (std::isinf(cpu.log2_p[texel])) {
      ASSERT_EQ(gpu.log2_p[texel], cpu.log2_p[texel]) << "level " << cpu.key.level << ", texel " << texel;
    } else {
      ASSERT_NEAR(gpu.log2_p[texel], cpu.log2_p[texel], 1e-4f) << "level " << cpu.key.level << ", texel " << texel;
    }
  }
}

TEST_P(HeadOnGpu, TilesAreTheCpus) {
  for (const TileReduction reduction : {TileReduction::kMax, TileReduction::kMean}) {
    for (int32_t level = 0; level <= MaxLevel(pair_.cpu->num_rows, pair_.cpu->num_tokens) + 1; ++level) {
      const TileKey key{pair_.cpu->id, reduction, level, 0, 0};
      ExpectSameTile(*ComputeTile(*pair_.gpu, key, 2, {}), *ComputeTile(*pair_.cpu, key, 2, {}));
    }
    const TileKey shifted{pair_.cpu->id, reduction, 0, 1, 1};
    ExpectSameTile(*ComputeTile(*pair_.gpu, shifted, 2, {}), *ComputeTile(*pair_.cpu, shifted, 2, {}));
    const std::vector<TilePtr> cpu = ComputePyramid(*pair_.cpu, {&reduction, 1}, 0, 2, {});
    const std::vector<TilePtr> gpu = ComputePyramid(*pair_.gpu, {&reduction, 1}, 0, 2, {});
    ASSERT_EQ(gpu.size(), cpu.size());
    for (size_t i = 0; i < cpu.size(); ++i) ExpectSameTile(*gpu[i], *cpu[i]);
  }
}

// A picture's texels have any size.
TEST_P(HeadOnGpu, TexelsWithAnyEdgesAreTheCpus) {
  const int64_t rows = pair_.cpu->num_rows, tokens = pair_.cpu->num_tokens;
  const TexelEdges cases[] = {
      {{0, 1, 1, 70, rows / 2, rows}, {0, 3, 100, tokens - 1, tokens}},
      {{5, 6, 7}, EvenEdges(0, 1, tokens)},
      {{0, rows + 50}, {-20, 40, tokens + 9}},
  };
  for (const TexelEdges& edges : cases) {
    for (const TileReduction reduction : {TileReduction::kMax, TileReduction::kMean}) {
      TexelGrid cpu, gpu;
      AccumulateTexels(*pair_.cpu, edges, {&reduction, 1}, 2, {}, &cpu);
      AccumulateTexels(*pair_.gpu, edges, {&reduction, 1}, 2, {}, &gpu);
      EXPECT_TRUE(gpu.on_gpu);
      EXPECT_FALSE(cpu.on_gpu);
      EXPECT_EQ(gpu.pairs, cpu.pairs);
      for (int64_t texel = 0; texel < cpu.num_rows * cpu.num_columns; ++texel) {
        if (std::isinf(cpu.Log2P(reduction, texel))) {
          ASSERT_EQ(gpu.Log2P(reduction, texel), cpu.Log2P(reduction, texel)) << texel;
        } else {
          ASSERT_NEAR(gpu.Log2P(reduction, texel), cpu.Log2P(reduction, texel), 1e-4f) << texel;
        }
      }
    }
  }
}

// Metrics that count what ranks or targets decide jump where two scores are equal but for rounding.
double ToleranceOf(const std::string& metric) {
  return metric.starts_with("agreement_") ? 1e-3 : metric.starts_with("sparsity_") ? 3e-4 : 1e-5;
}

void ExpectTheCpus(const HeadTensors& gpu, const HeadTensors& cpu, const StatisticsOptions& options) {
  const HeadStatistics expected = ComputeStatistics(cpu, options);
  const HeadStatistics found = ComputeStatistics(gpu, options);
  EXPECT_EQ(expected.device, NamedCpu());
  EXPECT_EQ(found.device, gpu.gpu_device) << found.note;
  EXPECT_TRUE(found.note.empty() || found.note.ends_with(" have no GPU version and were computed on the CPU"))
      << found.note;
  EXPECT_EQ(found.num_rows, expected.num_rows);
  for (const MetricInfo& metric : MetricsOf(expected)) {
    const double value = MetricValue(expected, metric.name);
    EXPECT_NEAR(MetricValue(found, metric.name), value, ToleranceOf(metric.name) * std::max(1.0, std::fabs(value)))
        << metric.name;
  }
  EXPECT_EQ(found.head_class, expected.head_class) << found.class_reason << "; CPU: " << expected.class_reason;
  ASSERT_EQ(found.column_profile.size(), expected.column_profile.size());
  for (size_t i = 0; i < expected.column_profile.size(); ++i) {
    ASSERT_NEAR(found.column_profile[i], expected.column_profile[i], 1e-6f) << i;
    ASSERT_NEAR(found.diagonal_profile[i], expected.diagonal_profile[i], 1e-6f) << i;
  }
  ASSERT_EQ(found.logit_profile.size(), expected.logit_profile.size());
  for (size_t i = 0; i < expected.logit_profile.size(); ++i)
    ASSERT_NEAR(found.logit_profile[i], expected.logit_profile[i], 1e-4f) << i;
}

TEST_P(HeadOnGpu, StatisticsAreTheCpus) {
  StatisticsOptions options;
  options.num_threads = 2;
  ExpectTheCpus(*pair_.gpu, *pair_.cpu, options);
  options.cra_targets = {0.5};
  options.agreement_r = {4};
  options.agreement_k = {1};
  ExpectTheCpus(*pair_.gpu, *pair_.cpu, options);
  options.agreement_r.clear();
  ExpectTheCpus(*pair_.gpu, *pair_.cpu, options);
}

// Rows of equal scores: ties go to the lower column on both.
TEST(StatisticsOnGpu, EqualScoresAreTheCpus) {
  SKIP_WITHOUT_GPU();
  HeadTensors head = testing::Bf16Head({.num_tokens = 800, .head_dim = 64}, 5);
  std::fill(head.q.begin(), head.q.begin() + 300 * 64, 0.0f);
  for (size_t token = 0; token < 800; ++token) {
    std::copy_n(head.k.begin() + static_cast<std::ptrdiff_t>(token % 50 * 64), 64,
                head.k.begin() + static_cast<std::ptrdiff_t>(token * 64));
  }
  ASSERT_TRUE(kernels::RowLse(head.Problem(), 0, {.num_threads = 2}, head.lse.data()).ok());
  HeadTensors on_gpu = head;
  on_gpu.gpu_device = {CudaDevice(0), "the GPU"};
  ASSERT_TRUE(CopyToGpu(CudaDevice(0), &on_gpu).ok());
  ExpectTheCpus(on_gpu, head, {});
}

// Several chunks of rows, a first one that begins inside a block of positions, keys before a cut that are not there.
TEST(StatisticsOnGpu, APartOfALongTraceIsTheCpus) {
  SKIP_WITHOUT_GPU();
  HeadTensors head = testing::Bf16Head({.num_tokens = 9000, .first_row = 131, .head_dim = 128}, 6);
  head.first_token = 2;
  for (float& lse : head.lse) lse += 0.5f;  // as if keys outside held 39 % of the mass
  HeadTensors on_gpu = head;
  on_gpu.gpu_device = {CudaDevice(0), "the GPU"};
  ASSERT_TRUE(CopyToGpu(CudaDevice(0), &on_gpu).ok());
  StatisticsOptions options;
  ExpectTheCpus(on_gpu, head, options);
  EXPECT_NEAR(ComputeStatistics(on_gpu, options).outside_mass, 1 - std::exp(-0.5), 1e-5);
}

// All statistics of a head of 128K tokens and head_dim 128: half a second wanted on an H200, where the CPU takes
// minutes; what the host adds depends on its cores.
TEST(StatisticsOnGpu, AHeadOf128KTokensTakesSeconds) {
  SKIP_WITHOUT_GPU();
  constexpr int64_t kTokens = 131072, kHeadDim = 128;
  HeadTensors head;
  head.head_dim = kHeadDim;
  head.num_rows = head.num_tokens = kTokens;
  head.scale = 1.0f / std::sqrt(static_cast<float>(kHeadDim));
  head.row_positions.resize(kTokens);
  std::iota(head.row_positions.begin(), head.row_positions.end(), 0);
  std::mt19937 random(8);
  std::uniform_int_distribution<int> eighths(-16, 16);  // bf16 holds these
  for (std::vector<float>* values : {&head.q, &head.k}) {
    values->resize(static_cast<size_t>(kTokens * kHeadDim));
    for (float& value : *values) value = static_cast<float>(eighths(random)) / 8;
  }
  head.v = head.k;
  head.lse.resize(kTokens);
  ASSERT_TRUE(CopyToGpu(CudaDevice(0), &head).ok());
  ASSERT_TRUE(head.gpu->RowLse(head.lse.data()).ok());  // the LSE of these keys
  ASSERT_TRUE(CopyToGpu(CudaDevice(0), &head).ok());

  const Stopwatch stopwatch;
  const HeadStatistics statistics = ComputeStatistics(head, {});
  const double seconds = stopwatch.Milliseconds() / 1000;
  std::cout << "128K tokens, head_dim 128, all statistics on " << statistics.device.name << ": " << seconds << " s\n";
  EXPECT_EQ(statistics.device, head.gpu_device) << statistics.note;
  EXPECT_EQ(statistics.num_rows, kTokens);
  EXPECT_EQ(statistics.outside_mass, 0);
  EXPECT_NEAR(std::accumulate(statistics.column_profile.begin(), statistics.column_profile.end(), 0.0), 1, 1e-4);
  // Some rows of it, by the CPU, from the end where they are longest.
  StatisticsOptions some;
  some.max_rows = 48;
  const HeadStatistics sampled = ComputeStatistics(head, some);
  EXPECT_EQ(sampled.device, NamedCpu());
  EXPECT_NEAR(statistics.entropy, sampled.entropy, 0.05 * sampled.entropy);
  EXPECT_NEAR(MetricValue(statistics, "sparsity_0.95"), MetricValue(sampled, "sparsity_0.95"), 0.02);
  EXPECT_NEAR(MetricValue(statistics, "agreement_r32_k128"), MetricValue(sampled, "agreement_r32_k128"), 0.1);
  if (head.gpu_device.name.find("H200") != std::string::npos) {
    EXPECT_LE(seconds, 2) << head.gpu_device.name;
  }
}

TEST(StatisticsOnGpu, WhatTheGpuLeavesToTheCpuIsTold) {
  SKIP_WITHOUT_GPU();
  const testing::HeadPair pair = OnBoth({.num_tokens = 500, .head_dim = 64}, 7);
  StatisticsOptions sampled, targets;
  sampled.max_rows = 40;
  targets.cra_targets = {0.5, 0.6, 0.7, 0.8, 0.9};
  for (const StatisticsOptions& options : {sampled, targets}) {
    const HeadStatistics statistics = ComputeStatistics(*pair.gpu, options);
    EXPECT_GT(statistics.num_rows, 0);
    EXPECT_EQ(statistics.device, NamedCpu());
    EXPECT_NE(statistics.note, "");
  }
}

// The parts of the pass that are kernels of their own.
TEST_P(HeadOnGpu, ProfilesAndTopMassAreTheStatistics) {
  const HeadTensors& head = *pair_.cpu;
  StatisticsOptions options;
  options.profile_bins = static_cast<int32_t>(head.num_tokens);  // a bin per token
  options.num_threads = 2;
  const HeadStatistics expected = ComputeStatistics(head, options);
  const auto rows = static_cast<double>(head.num_rows);

  std::vector<double> columns(static_cast<size_t>(head.num_tokens));
  std::vector<double> distances(static_cast<size_t>(head.row_positions.back() + 1));
  ASSERT_TRUE(pair_.gpu->gpu->LineMass({}, columns.data(), distances.data()).ok());
  for (size_t i = 0; i < columns.size(); ++i) ASSERT_NEAR(columns[i] / rows, expected.column_profile[i], 1e-6) << i;
  for (size_t i = 0; i < distances.size(); ++i) {
    ASSERT_NEAR(distances[i] / rows, expected.diagonal_profile[i], 1e-6) << i;
  }
  const kernels::LineOptions far{kernels::LineRegion::kFar, options.sink_tokens, options.local_tokens};
  ASSERT_TRUE(pair_.gpu->gpu->LineMass(far, columns.data(), distances.data()).ok());
  const auto best = [&](std::vector<double> values) {
    std::sort(values.begin(), values.end(), std::greater<>());
    double sum = 0;
    for (int32_t i = 0; i < options.best_lines; ++i) sum += values[static_cast<size_t>(i)];
    return sum / rows;
  };
  EXPECT_NEAR(best(columns), expected.vertical_mass, 1e-5);
  EXPECT_NEAR(best(distances), expected.slash_mass, 1e-5);

  std::vector<float> top(static_cast<size_t>(head.num_rows * kernels::kTopMassCounts));
  ASSERT_TRUE(pair_.gpu->gpu->TopMass(top.data()).ok());
  ASSERT_EQ(expected.top_k_mass.size(), static_cast<size_t>(kernels::kTopMassCounts));
  for (size_t i = 0; i < expected.top_k_mass.size(); ++i) {
    double sum = 0;
    for (size_t row = 0; row < static_cast<size_t>(head.num_rows); ++row) {
      sum += static_cast<double>(top[row * kernels::kTopMassCounts + i]);
    }
    EXPECT_NEAR(sum / rows, expected.top_k_mass[i].mean, 1e-5) << expected.top_k_mass[i].k;
  }
  std::vector<float> lse(static_cast<size_t>(head.num_rows));
  ASSERT_TRUE(pair_.gpu->gpu->RowLse(lse.data()).ok());
  for (size_t row = 0; row < lse.size(); ++row) ASSERT_NEAR(lse[row], head.lse[row], 2e-5f) << row;
}

INSTANTIATE_TEST_SUITE_P(Shapes, HeadOnGpu,
                         ::testing::Values(RandomHeadShape{.num_tokens = 700, .head_dim = 64},
                                           RandomHeadShape{.num_tokens = 1500, .first_row = 900, .head_dim = 128},
                                           RandomHeadShape{.num_tokens = 900, .head_dim = 32, .window = 200},
                                           RandomHeadShape{.num_tokens = 600, .head_dim = 96, .soft_cap = 20}));

TEST(CopyToGpu, RefusesWhatItWouldRound) {
  HeadTensors head = Bf16Head({.num_tokens = 100, .head_dim = 64}, 1);
  head.k[7] = 1.0f + 0x1p-20f;
  const kernels::Status status = CopyToGpu(CudaDevice(0), &head);
  EXPECT_EQ(head.gpu, nullptr);
  if (kernels::CudaDeviceInfo info; !kernels::QueryCudaDevice(0, &info).ok()) {
    EXPECT_EQ(status.code(), kernels::StatusCode::kDeviceMissing) << status.message();
    return;
  }
  EXPECT_EQ(status.code(), kernels::StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("neither bf16 nor fp16"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace headscope::analysis
