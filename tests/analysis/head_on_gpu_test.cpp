// A head on the GPU gives the numbers that it gives on the CPU.
#include "head/head_on_gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "analysis/compare.h"
#include "analysis/statistics.h"
#include "analysis/tiles.h"
#include "kernels/cpu_scores.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_statistics.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using testing::RandomHead;
using testing::RandomHeadShape;
using testing::RandomIndex;

bool HaveGpu() {
  kernels::CudaDeviceInfo info;
  return kernels::QueryCudaDevice(0, &info).ok();
}

// Values that bf16 holds, and the LSE of just these.
HeadTensors Bf16Head(const RandomHeadShape& shape, uint32_t seed) {
  HeadTensors head = *RandomHead(shape, seed);
  for (std::vector<float>* values : {&head.q, &head.k, &head.v}) {
    for (float& value : *values) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFF0000u);
  }
  EXPECT_TRUE(kernels::RowLse(head.Problem(), head.window, {2, nullptr}, head.lse.data()).ok());
  return head;
}

struct Pair {
  HeadTensorsPtr cpu, gpu;
};
Pair OnBoth(const RandomHeadShape& shape, uint32_t seed) {
  HeadTensors head = Bf16Head(shape, seed);
  Pair pair;
  pair.cpu = std::make_shared<HeadTensors>(head);
  const kernels::Status status = CopyToGpu(head, &head.gpu);
  EXPECT_TRUE(status.ok()) << status.message();
  pair.gpu = std::make_shared<HeadTensors>(std::move(head));
  return pair;
}

class HeadOnGpu : public ::testing::TestWithParam<RandomHeadShape> {
 protected:
  void SetUp() override {
    if (!HaveGpu()) GTEST_SKIP() << "no usable GPU";
    pair_ = OnBoth(GetParam(), 3);
    ASSERT_NE(pair_.gpu->gpu, nullptr);
  }
  Pair pair_;
};

TEST_P(HeadOnGpu, KeptMassIsTheCpus) {
  for (const int32_t tile_rows : {64, 128}) {
    for (const kernels::ElementRule rule :
         {kernels::ElementRule{}, kernels::ElementRule{kernels::MaskKind::kCausalWindow, 70, 3}}) {
      const kernels::SparseIndex index = RandomIndex(*pair_.cpu, tile_rows, rule, 7);
      std::vector<float> cpu, gpu, by_block;
      ASSERT_TRUE(KeptMass(*pair_.cpu, index.View(), 2, nullptr, &cpu).ok());
      ASSERT_TRUE(KeptMass(*pair_.gpu, index.View(), 2, nullptr, &gpu).ok());
      const auto mass = HeadMass::Compute(pair_.gpu, 2, nullptr);
      ASSERT_NE(mass, nullptr);
      ASSERT_TRUE(mass->KeptMass(index.View(), 2, nullptr, &by_block).ok());
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
      ExpectSameTile(*ComputeTile(*pair_.gpu, key, 2, nullptr), *ComputeTile(*pair_.cpu, key, 2, nullptr));
    }
    const TileKey shifted{pair_.cpu->id, reduction, 0, 1, 1};
    ExpectSameTile(*ComputeTile(*pair_.gpu, shifted, 2, nullptr), *ComputeTile(*pair_.cpu, shifted, 2, nullptr));
    const std::vector<TilePtr> cpu = ComputePyramid(*pair_.cpu, reduction, 0, 2, nullptr);
    const std::vector<TilePtr> gpu = ComputePyramid(*pair_.gpu, reduction, 0, 2, nullptr);
    ASSERT_EQ(gpu.size(), cpu.size());
    for (size_t i = 0; i < cpu.size(); ++i) ExpectSameTile(*gpu[i], *cpu[i]);
  }
}

// The same definitions as the statistics of a head, which never run on the GPU themselves.
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

TEST(Comparison, OnTheGpuMeasuresTheSameMasks) {
  if (!HaveGpu()) GTEST_SKIP() << "no usable GPU";
  const Pair pair = OnBoth({.num_tokens = 2000, .head_dim = 64}, 5);
  CompareOptions options;
  options.repeats = 2;
  HeadComparison on_cpu(pair.cpu, options);
  options.device = "cuda";
  HeadComparison on_gpu(pair.gpu, options);
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    const kernels::ParameterValues values(method->spec());
    MethodResult cpu, gpu;
    ASSERT_TRUE(on_cpu.Run(method->spec().name, values, &cpu).ok());
    const kernels::Status status = on_gpu.Run(method->spec().name, values, &gpu);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(gpu.kept_fraction, cpu.kept_fraction) << method->spec().name;
    EXPECT_NEAR(gpu.cra_min, cpu.cra_min, 1e-5) << method->spec().name;
    EXPECT_NEAR(gpu.cra_mean, cpu.cra_mean, 1e-5) << method->spec().name;
    // The output is rounded to bf16: 2^-9 of each value.
    EXPECT_NEAR(gpu.relative_error, cpu.relative_error, 4e-3) << method->spec().name;
    EXPECT_LT(gpu.kernel_error, 5e-3) << method->spec().name;
    EXPECT_GT(gpu.attend.median_ms, 0) << method->spec().name;
  }
}

TEST(CopyToGpu, RefusesWhatItWouldRound) {
  HeadTensors head = Bf16Head({.num_tokens = 100, .head_dim = 64}, 1);
  head.k[7] = 1.0f + 0x1p-20f;
  const kernels::Status status = CopyToGpu(head, &head.gpu);
  EXPECT_EQ(head.gpu, nullptr);
  if (!HaveGpu()) {
    EXPECT_EQ(status.code(), kernels::StatusCode::kDeviceMissing) << status.message();
    return;
  }
  EXPECT_EQ(status.code(), kernels::StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("neither bf16 nor fp16"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace headscope::analysis
