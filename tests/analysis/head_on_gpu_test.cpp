// A head on the GPU gives the numbers that it gives on the CPU.
#include "head/head_on_gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/compare.h"
#include "analysis/statistics.h"
#include "analysis/tiles.h"
#include "head_pair.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_statistics.h"
#include "support/gpu.h"

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

TEST(CopyToGpu, RefusesWhatItWouldRound) {
  HeadTensors head = Bf16Head({.num_tokens = 100, .head_dim = 64}, 1);
  head.k[7] = 1.0f + 0x1p-20f;
  const kernels::Status status = CopyToGpu(head, &head.gpu);
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
