// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stop_token>

#include "analysis/compare.h"
#include "base/errors.h"
#include "support/stopped.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using testing::AllProbabilities;
using testing::RandomHead;
using testing::RandomIndex;

std::vector<double> ExpectedMass(const HeadTensors& head, const kernels::SparseIndexView& index) {
  const std::vector<double> p = AllProbabilities(head);
  std::vector<double> mass;
  for (int32_t row = 0; row < head.num_rows; ++row) {
    std::vector<kernels::ColumnRange> ranges;
    kernels::AppendKeptRanges(index, 0, 0, row, &ranges);
    double sum = 0;
    for (const auto& range : ranges) {
      for (int32_t column = range.begin; column < range.end; ++column)
        sum += p[static_cast<size_t>(row * head.num_tokens + column)];
    }
    mass.push_back(sum);
  }
  return mass;
}

void ExpectMass(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t row = 0; row < actual.size(); ++row)
    ASSERT_NEAR(static_cast<double>(actual[row]), expected[row], 3e-6) << "row " << row;
}

// cra_mean once read 1.00000004.
TEST(KeptMass, RoundingLeavesNoMassAboveOne) {
  HeadTensors head = *RandomHead({.num_tokens = 300}, 9);
  for (float& lse : head.lse) lse -= 2e-7f * std::fabs(lse);
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = shape.seq_k = 300;
  kernels::SparseIndexBuilder builder(shape);
  for (int32_t row = 0; row < 300; row += 128) {
    builder.AddRange(0, 300);
    builder.FinishList();
  }
  const kernels::SparseIndex everything = builder.Build();
  std::vector<float> mass;
  ASSERT_TRUE(KeptMass(head, everything.View(), 2, {}, &mass).ok());
  EXPECT_EQ(*std::max_element(mass.begin(), mass.end()), 1.0f);
  const auto by_block = HeadMass::Compute(std::make_shared<HeadTensors>(head), 2, {});
  ASSERT_TRUE(by_block->KeptMass(everything.View(), 2, {}, &mass).ok());
  EXPECT_EQ(*std::max_element(mass.begin(), mass.end()), 1.0f);
}

TEST(KeptMass, StreamingAndByBlocksEqualTheSumOverTheKeptSet) {
  using kernels::MaskKind;
  uint32_t seed = 100;
  for (const testing::RandomHeadShape& shape :
       {testing::RandomHeadShape{.num_tokens = 700}, testing::RandomHeadShape{.num_tokens = 555, .first_row = 201},
        testing::RandomHeadShape{.num_tokens = 400, .window = 90}}) {
    const HeadTensorsPtr head = RandomHead(shape, ++seed);
    const std::shared_ptr<const HeadMass> by_block = HeadMass::Compute(head, 2, {});
    ASSERT_NE(by_block, nullptr);
    for (const kernels::ElementRule rule :
         {kernels::ElementRule{MaskKind::kCausal, 0, 0}, kernels::ElementRule{MaskKind::kCausalWindow, 70, 5},
          kernels::ElementRule{MaskKind::kCausalWindow, 1, 0}, kernels::ElementRule{MaskKind::kNone, 0, 0}}) {
      for (const int32_t tile_rows : {64, 128}) {
        const kernels::SparseIndex index = RandomIndex(*head, tile_rows, rule, ++seed);
        ASSERT_TRUE(kernels::Validate(index.View()).ok());
        const std::vector<double> expected = ExpectedMass(*head, index.View());
        std::vector<float> mass;
        ASSERT_TRUE(KeptMass(*head, index.View(), 2, {}, &mass).ok());
        ExpectMass(mass, expected);
        ASSERT_TRUE(by_block->KeptMass(index.View(), 2, {}, &mass).ok());
        ExpectMass(mass, expected);
      }
    }
  }
}

// fp32 knows a score of 65 or more to some 4e-5, and its probability relative to itself as well: docs/analysis.md
// allows 1e-6 of the largest |score|.
TEST(KeptMass, LargeScoresCostWhatTheirRoundingDoes) {
  for (const int32_t head_dim : {64, 256}) {
    const HeadTensorsPtr head = RandomHead({.num_tokens = 700, .head_dim = head_dim, .sharpness = 17}, 31);
    const kernels::SparseIndex index = RandomIndex(*head, 128, {kernels::MaskKind::kCausal, 0, 0}, 7);
    std::vector<double> expected;
    double largest = 0;
    for (int32_t row = 0; row < head->num_rows; ++row) {
      std::vector<kernels::ColumnRange> ranges;
      kernels::AppendKeptRanges(index.View(), 0, 0, row, &ranges);
      double sum = 0;
      for (const kernels::ColumnRange& range : ranges) {
        for (int32_t column = range.begin; column < range.end; ++column) {
          double score = 0;
          for (int64_t i = 0; i < head_dim; ++i) {
            score += static_cast<double>(head->q[static_cast<size_t>(row * int64_t{head_dim} + i)]) *
                     static_cast<double>(head->k[static_cast<size_t>(column * int64_t{head_dim} + i)]);
          }
          score *= static_cast<double>(head->scale);
          largest = std::max(largest, std::abs(score));
          sum += std::exp(score - static_cast<double>(head->lse[static_cast<size_t>(row)]));
        }
      }
      expected.push_back(sum);
    }
    ASSERT_GT(largest, 65.0);
    const std::shared_ptr<const HeadMass> by_block = HeadMass::Compute(head, 2, {});
    ASSERT_NE(by_block, nullptr);
    std::vector<float> streaming, from_blocks;
    ASSERT_TRUE(KeptMass(*head, index.View(), 2, {}, &streaming).ok());
    ASSERT_TRUE(by_block->KeptMass(index.View(), 2, {}, &from_blocks).ok());
    for (const std::vector<float>& mass : {streaming, from_blocks}) {
      ASSERT_EQ(mass.size(), expected.size());
      double worst = 0;
      for (size_t row = 0; row < mass.size(); ++row)
        worst = std::max(worst, std::abs(static_cast<double>(mass[row]) - expected[row]));
      EXPECT_LE(worst, 1e-6 * largest) << "largest |score| " << largest;
    }
  }
}

TEST(KeptMass, EveryMethodsMaskHasTheMassOfItsKeptSet) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 1200, .head_dim = 64}, 5);
  const std::shared_ptr<const HeadMass> by_block = HeadMass::Compute(head, 2, {});
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    MaskPreview preview;
    const kernels::Status status =
        PreviewMask(*by_block, *method, kernels::ParameterValues(method->spec()), 2, {}, &preview);
    ASSERT_TRUE(status.ok()) << method->spec().name << ": " << status.message();
    const std::vector<double> expected = ExpectedMass(*head, preview.index->View());
    ExpectMass(preview.kept_mass, expected);
    EXPECT_NEAR(preview.summary.cra_min, *std::min_element(expected.begin(), expected.end()), 3e-6);
    const auto worst = std::min_element(preview.kept_mass.begin(), preview.kept_mass.end()) - preview.kept_mass.begin();
    EXPECT_EQ(preview.summary.worst_row, worst);
    EXPECT_DOUBLE_EQ(preview.summary.kept_fraction, kernels::CountPairs(preview.index->View()).Density());
  }
}

TEST(KeptMass, DenseKeepsAllOfIt) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 500}, 6);
  MaskPreview preview;
  const kernels::PrefillMethod* dense = kernels::FindPrefillMethod("dense");
  ASSERT_TRUE(PreviewMask(*head, *dense, kernels::ParameterValues(dense->spec()), 0, {}, &preview).ok());
  EXPECT_NEAR(preview.summary.cra_min, 1.0, 2e-6);
  EXPECT_DOUBLE_EQ(preview.summary.kept_fraction, 1.0);
}

TEST(KeptMass, RefusesAnIndexOfAnotherHead) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 100}, 1);
  const HeadTensorsPtr other = RandomHead({.num_tokens = 120}, 1);
  const kernels::SparseIndex index = RandomIndex(*other, 64, {}, 1);
  std::vector<float> mass = {42};
  const kernels::Status status = KeptMass(*head, index.View(), 0, {}, &mass);
  EXPECT_EQ(status.code(), kernels::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("120 rows"));
  EXPECT_THAT(mass, ::testing::ElementsAre(42));
}

TEST(KeptMass, PreviewRefusesRowsWithGaps) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 100, .row_step = 2}, 1);
  const kernels::PrefillMethod* dense = kernels::FindPrefillMethod("dense");
  MaskPreview preview;
  const kernels::Status status = PreviewMask(*head, *dense, kernels::ParameterValues(dense->spec()), 0, {}, &preview);
  EXPECT_EQ(status.code(), kernels::StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("head 3:5"));
}

TEST(KeptMass, CancelledComputationGivesNothing) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300}, 1);
  const std::stop_token stopped = StoppedToken();
  EXPECT_THROW(HeadMass::Compute(head, 1, stopped), CancelledError);
  std::vector<float> mass;
  EXPECT_EQ(KeptMass(*head, RandomIndex(*head, 64, {}, 1).View(), 1, stopped, &mass).code(),
            kernels::StatusCode::kCancelled);
}

}  // namespace
}  // namespace headscope::analysis
