// SPDX-License-Identifier: Apache-2.0
// The GPU's statistics against float64, definition by definition. Tolerances are fp32's: a score is known to 5e-7 of
// the largest after 64 to 256 fp32 additions and the subtraction of its row's LSE, and p relative to 1 as much; sums of
// many p average that out.
#include "kernels/cuda_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_lists.h"
#include "cuda_statistics_reference.h"
#include "cuda_statistics_support.h"

namespace headscope::kernels {
namespace {

using testing::kInfinity;
using testing::Pattern;
using testing::StatisticsCase;
using testing::StatisticsProblem;
using testing::WorstError;

class CudaStatisticsTest : public ::testing::TestWithParam<StatisticsCase> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    // The tests of a case share its reference, which is made once.
    static std::map<std::string, std::shared_ptr<const StatisticsProblem>> made;
    std::shared_ptr<const StatisticsProblem>& problem = made[testing::NameOf(GetParam())];
    if (problem == nullptr) problem = std::make_shared<StatisticsProblem>(GetParam(), 11);
    data_ = problem;
    const Status status =
        CudaScores::Create(data_->problem(), GetParam().window, data_->rounded_lse().data(), &scores_);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // What cuda_statistics.h allows, relative: `small`, or what large scores cost where that is more.
  double Allowed(double small) const { return std::max(small, 1e-6 * data_->largest_score()); }
  int64_t NumHeads() const { return int64_t{GetParam().batch} * GetParam().num_qo_heads; }

  std::shared_ptr<const StatisticsProblem> data_;
  std::unique_ptr<CudaScores> scores_;
};

// Both kernels on device pointers: cuda_row_lse_test.cpp.
TEST_P(CudaStatisticsTest, RowLse) {
  std::vector<float> lse(static_cast<size_t>(data_->NumRows()), 1e30f);
  const Status status = scores_->RowLse(lse.data());
  ASSERT_TRUE(status.ok()) << status.message();
  WorstError worst;
  for (size_t row = 0; row < lse.size(); ++row) {
    if (data_->lse()[row] == -kInfinity) {
      EXPECT_EQ(lse[row], -std::numeric_limits<float>::infinity()) << row;
    } else {
      worst.Add(static_cast<double>(lse[row]), data_->lse()[row], 5e-6 + 2e-6 * data_->largest_score(), 0);
    }
  }
  worst.Check("lse");
}

TEST_P(CudaStatisticsTest, KeptMass) {
  const StatisticsCase& shape = GetParam();
  WorstError worst;
  for (const int32_t tile_rows : {64, 128}) {
    for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kShortRuns, Pattern::kColumns,
                                  Pattern::kHalves, Pattern::kSomeEmpty}) {
      for (const ElementRule rule : {ElementRule{MaskKind::kCausal, 0, 0}, ElementRule{MaskKind::kCausalWindow, 97, 5},
                                     ElementRule{MaskKind::kNone, 0, 0}}) {
        const SparseIndex index = testing::MakeLists(
            {shape.batch, shape.num_qo_heads, shape.seq_q, shape.seq_k, shape.first_position, tile_rows, rule}, pattern,
            5);
        std::vector<float> mass(static_cast<size_t>(data_->NumRows()), -1.0f);
        const Status status = scores_->KeptMass(index.View(), mass.data());
        ASSERT_TRUE(status.ok()) << status.message();
        std::vector<ColumnRange> ranges;
        for (int64_t slot = 0; slot < data_->NumRows(); ++slot) {
          const int64_t head = slot / shape.seq_q;
          ranges.clear();
          AppendKeptRanges(index.View(), static_cast<int32_t>(head / shape.num_qo_heads),
                           static_cast<int32_t>(head % shape.num_qo_heads), static_cast<int32_t>(slot % shape.seq_q),
                           &ranges);
          const double* const p = data_->Probabilities(head, slot % shape.seq_q);
          double expected = 0;
          for (const ColumnRange& range : ranges) {
            for (int32_t column = range.begin; column < range.end; ++column) expected += p[column];
          }
          worst.Add(static_cast<double>(mass[static_cast<size_t>(slot)]), expected, 1e-7, Allowed(1e-5));
        }
      }
    }
  }
  worst.Check("kept mass");
}

TEST_P(CudaStatisticsTest, LineMass) {
  const StatisticsCase& shape = GetParam();
  const int64_t num_distances = int64_t{shape.first_position} + shape.seq_q;
  WorstError column_error, distance_error;
  for (const LineRegion region : {LineRegion::kAll, LineRegion::kNear, LineRegion::kFar}) {
    const LineOptions options{region, 4, 128};
    std::vector<double> columns(static_cast<size_t>(NumHeads() * shape.seq_k), -1.0);
    std::vector<double> distances(static_cast<size_t>(NumHeads() * num_distances), -1.0);
    const Status status = scores_->LineMass(options, columns.data(), distances.data());
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<double> expected_columns(columns.size()), expected_distances(distances.size());
    for (int64_t head = 0; head < NumHeads(); ++head) {
      for (int64_t row = 0; row < shape.seq_q; ++row) {
        const double* const p = data_->Probabilities(head, row);
        const int64_t position = shape.first_position + row;
        for (int64_t column = 0; column < std::min<int64_t>(shape.seq_k, position + 1); ++column) {
          const bool far = column >= options.sink_tokens && position - column >= options.local_tokens;
          if (region != LineRegion::kAll && far != (region == LineRegion::kFar)) continue;
          expected_columns[static_cast<size_t>(head * shape.seq_k + column)] += p[column];
          expected_distances[static_cast<size_t>(head * num_distances + position - column)] += p[column];
        }
      }
    }
    for (size_t i = 0; i < columns.size(); ++i) column_error.Add(columns[i], expected_columns[i], 2e-9, Allowed(2e-5));
    for (size_t i = 0; i < distances.size(); ++i) {
      distance_error.Add(distances[i], expected_distances[i], 2e-9, Allowed(2e-5));
    }
  }
  column_error.Check("columns");
  distance_error.Check("distances");
}

TEST_P(CudaStatisticsTest, TopMass) {
  const StatisticsCase& shape = GetParam();
  std::vector<float> top(static_cast<size_t>(data_->NumRows() * kTopMassCounts), -1.0f);
  const Status status = scores_->TopMass(top.data());
  ASSERT_TRUE(status.ok()) << status.message();
  WorstError worst;
  for (int64_t slot = 0; slot < data_->NumRows(); ++slot) {
    const double* const p = data_->Probabilities(slot / shape.seq_q, slot % shape.seq_q);
    std::vector<double> sorted(p, p + shape.seq_k);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    double sum = 0;
    for (int64_t k = 1, i = 0, slot_k = 0; slot_k < kTopMassCounts; k *= 2, ++slot_k) {
      for (; i < std::min<int64_t>(k, shape.seq_k); ++i) sum += sorted[static_cast<size_t>(i)];
      worst.Add(static_cast<double>(top[static_cast<size_t>(slot * kTopMassCounts + slot_k)]), sum, 1e-7,
                Allowed(1e-5));
    }
  }
  worst.Check("top mass");
}

TEST_P(CudaStatisticsTest, Texels) {
  const StatisticsCase& shape = GetParam();
  WorstError worst;
  for (const int32_t level : {0, 1, 2, 4, 5, 6, 7, 8, 10}) {
    const int64_t step = int64_t{1} << level;
    // A grid that begins inside the map and ends beyond it, where the map is large enough for that.
    TexelRequest request;
    request.level = level;
    request.row_begin = shape.seq_q / 3 / step * step;
    request.column_begin = (level < 3 ? std::max(0, shape.seq_k - 900) : shape.seq_k / 5) / step * step;
    request.num_rows = static_cast<int32_t>(std::min<int64_t>(256, (shape.seq_q - request.row_begin) / step + 2));
    request.num_columns = static_cast<int32_t>(std::min<int64_t>(990, (shape.seq_k - request.column_begin) / step + 2));
    for (const TexelValue value : {TexelValue::kMaxLog2, TexelValue::kSum}) {
      request.value = value;
      const int64_t texels_per_head = int64_t{request.num_rows} * request.num_columns;
      std::vector<float> texels(static_cast<size_t>(NumHeads() * texels_per_head), 1e30f);
      const Status status = scores_->Texels(request, texels.data());
      ASSERT_TRUE(status.ok()) << status.message();
      std::vector<double> largest(texels.size(), 0.0), sum(texels.size(), 0.0), tiny(texels.size(), 0.0);
      for (int64_t head = 0; head < NumHeads(); ++head) {
        for (int64_t row = request.row_begin; row < shape.seq_q; ++row) {
          if ((row - request.row_begin) / step >= request.num_rows) break;
          const double* const p = data_->Probabilities(head, row);
          for (int64_t column = request.column_begin; column < shape.seq_k; ++column) {
            if ((column - request.column_begin) / step >= request.num_columns) break;
            const auto texel =
                static_cast<size_t>(head * texels_per_head + (row - request.row_begin) / step * request.num_columns +
                                    (column - request.column_begin) / step);
            largest[texel] = std::max(largest[texel], p[column]);
            sum[texel] += p[column];
            if (p[column] < 0x1.1p-126) tiny[texel] += p[column];  // fp32 may take them for 0
          }
        }
      }
      for (size_t i = 0; i < texels.size(); ++i) {
        const double expected = value == TexelValue::kSum ? sum[i] : largest[i];
        if (expected == 0) {
          EXPECT_EQ(static_cast<double>(texels[i]), value == TexelValue::kSum ? 0.0 : -kInfinity) << "level " << level;
        } else {
          const auto texel = static_cast<double>(texels[i]);
          const double log2_texel = value == TexelValue::kSum ? std::log2(texel) : texel;
          const double certain = expected - (value == TexelValue::kSum ? tiny[i] : 0);
          if (certain >= 0x1p-120) {
            // Between what is certain and all of it.
            const double middle = std::log2(expected / certain) / 2;
            worst.Add(log2_texel + middle, std::log2(expected), Allowed(1e-4) + middle, 0);
          } else {
            // fp32 has no such number, or not all of its digits.
            EXPECT_LT(log2_texel, std::max(-119.0, std::log2(expected) + 0.01)) << "level " << level;
          }
        }
      }
    }
  }
  worst.Check("texels");
}

TEST_P(CudaStatisticsTest, RepeatsBitByBit) {
  const StatisticsCase& shape = GetParam();
  const auto repeats = [&](size_t count, const std::function<Status(float*)>& compute) {
    std::vector<float> first(count), second(count);
    ASSERT_TRUE(compute(first.data()).ok());
    ASSERT_TRUE(compute(second.data()).ok());
    EXPECT_EQ(std::memcmp(first.data(), second.data(), count * sizeof(float)), 0);
  };
  const auto rows = static_cast<size_t>(data_->NumRows());
  repeats(rows, [&](float* out) { return scores_->RowLse(out); });
  repeats(rows * kTopMassCounts, [&](float* out) { return scores_->TopMass(out); });
  TexelRequest request;
  request.value = TexelValue::kSum;
  request.level = 3;
  repeats(static_cast<size_t>(NumHeads()) * 65536, [&](float* out) { return scores_->Texels(request, out); });
  const auto columns = static_cast<size_t>(NumHeads() * shape.seq_k);
  const auto distances = static_cast<size_t>(NumHeads() * (int64_t{shape.first_position} + shape.seq_q));
  std::vector<double> lines[2];
  for (std::vector<double>& values : lines) {
    values.resize(columns + distances);
    ASSERT_TRUE(scores_->LineMass({}, values.data(), values.data() + columns).ok());
  }
  EXPECT_EQ(lines[0], lines[1]);
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaStatisticsTest, ::testing::ValuesIn(testing::kStatisticsCases),
                         [](const auto& instance) { return testing::NameOf(instance.param); });

// Equal scores: the bound of top-k mass falls among ties, and every count must still be exact.
TEST(CudaStatistics, TopMassOfEqualScores) {
  SKIP_WITHOUT_GPU();
  constexpr int32_t kTokens = 5000;
  std::vector<uint16_t> zeros(int64_t{kTokens} * 64, 0);
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = 64;
  problem.seq_q = problem.seq_k = kTokens;
  problem.dtype = DType::kBFloat16;
  problem.q = problem.k = {zeros.data(), 0, 0, 64};
  std::unique_ptr<CudaScores> scores;
  ASSERT_TRUE(CudaScores::Create(problem, 0, nullptr, &scores).ok());
  std::vector<float> top(size_t{kTokens} * kTopMassCounts);
  ASSERT_TRUE(scores->TopMass(top.data()).ok());
  for (int32_t row = 0; row < kTokens; ++row) {
    for (int32_t i = 0; i < kTopMassCounts; ++i) {
      const double expected = std::min(1.0, static_cast<double>(1 << i) / (row + 1));
      ASSERT_NEAR(static_cast<double>(top[static_cast<size_t>(row * kTopMassCounts + i)]), expected, 1e-5 * expected)
          << "row " << row << ", k " << (1 << i);
    }
  }
}

// At full length no reference can look at every pair, but every row's mass is 1 however it is cut.
TEST(CudaStatistics, MassIsConservedAtFullLength) {
  SKIP_WITHOUT_GPU();
  for (const int32_t tokens : {46341, 131072}) {
    AttentionProblem problem;
    problem.num_qo_heads = problem.num_kv_heads = 1;
    problem.head_dim = 64;
    problem.seq_q = problem.seq_k = tokens;
    problem.dtype = DType::kBFloat16;
    std::vector<uint16_t> values(static_cast<size_t>(tokens) * 64);
    uint32_t state = 1;
    for (uint16_t& value : values) {  // +-1 .. +-2 in bf16
      state = state * 1664525u + 1013904223u;
      value = static_cast<uint16_t>((state >> 16 & 0x807fu) | 0x3f80u);
    }
    problem.q = {values.data(), 0, 0, 64};
    problem.k = {values.data(), 0, 0, 64};
    problem.scale = 0.05f;
    std::unique_ptr<CudaScores> scores;
    ASSERT_TRUE(CudaScores::Create(problem, 0, nullptr, &scores).ok());

    std::vector<double> columns(static_cast<size_t>(tokens)), distances(static_cast<size_t>(tokens));
    ASSERT_TRUE(scores->LineMass({}, columns.data(), distances.data()).ok());
    double column_sum = 0, distance_sum = 0;
    for (const double mass : columns) column_sum += mass;
    for (const double mass : distances) distance_sum += mass;
    EXPECT_NEAR(column_sum / tokens, 1.0, 1e-5);
    EXPECT_NEAR(distance_sum / tokens, 1.0, 1e-5);

    TexelRequest request;
    request.value = TexelValue::kSum;
    request.level = 9;
    std::vector<float> texels(65536);
    ASSERT_TRUE(scores->Texels(request, texels.data()).ok());
    for (int64_t row = 0; row * 512 < tokens; ++row) {
      double sum = 0;
      for (int64_t column = 0; column < 256; ++column) {
        sum += static_cast<double>(texels[static_cast<size_t>(row * 256 + column)]);
      }
      EXPECT_NEAR(sum, static_cast<double>(std::min<int64_t>(512, tokens - row * 512)), 512 * 1e-5) << row;
    }

    const SparseIndex dense = testing::MakeLists({1, 1, tokens, tokens, 0, 128, {}}, Pattern::kDense, 1);
    std::vector<float> mass(static_cast<size_t>(tokens));
    ASSERT_TRUE(scores->KeptMass(dense.View(), mass.data()).ok());
    std::vector<float> top(static_cast<size_t>(tokens) * kTopMassCounts);
    ASSERT_TRUE(scores->TopMass(top.data()).ok());
    for (int32_t row = 0; row < tokens; ++row) {
      ASSERT_NEAR(mass[static_cast<size_t>(row)], 1.0f, 1e-5f) << row;
      const float all = top[static_cast<size_t>(row) * kTopMassCounts + kTopMassCounts - 1];
      ASSERT_GE(all, row < 1024 ? 1.0f - 1e-5f : 0.0f) << row;
      ASSERT_LE(all, 1.0f + 1e-5f) << row;
    }
  }
}

// Refused before a GPU is asked for, so these run anywhere.
TEST(CudaStatistics, RefusesBadInput) {
  float lse = 0;
  alignas(16) uint16_t values[64] = {};
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = 64;
  problem.seq_q = problem.seq_k = 1;
  problem.dtype = DType::kBFloat16;
  problem.q = problem.k = {values, 64, 64, 64};
  const auto refuses = [&](StatusCode code, const std::string& word,
                           const std::function<void(AttentionProblem*)>& spoil) {
    AttentionProblem spoilt = problem;
    spoil(&spoilt);
    const Status status = RowLseCuda(spoilt, 0, &lse, nullptr);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  };
  refuses(StatusCode::kInvalidArgument, "q.data", [](AttentionProblem* p) { p->q.data = nullptr; });
  refuses(StatusCode::kInvalidArgument, "seq_k", [](AttentionProblem* p) { p->seq_k = 0; });
  refuses(StatusCode::kInvalidArgument, "num_kv_heads",
          [](AttentionProblem* p) { p->num_qo_heads = 3, p->num_kv_heads = 2; });
  refuses(StatusCode::kInvalidArgument, "first_position", [](AttentionProblem* p) { p->first_position = -1; });
  refuses(StatusCode::kInvalidArgument, "scale", [](AttentionProblem* p) { p->scale = NAN; });
  refuses(StatusCode::kInvalidArgument, "k.row_stride", [](AttentionProblem* p) { p->seq_k = 2, p->k.row_stride = 8; });
  refuses(StatusCode::kUnsupported, "dtype is fp32", [](AttentionProblem* p) { p->dtype = DType::kFloat32; });
  refuses(StatusCode::kUnsupported, "head_dim is 72", [](AttentionProblem* p) { p->head_dim = 72; });
  refuses(StatusCode::kUnsupported, "head_dim is 272", [](AttentionProblem* p) { p->head_dim = 272; });
  refuses(StatusCode::kUnsupported, "aligned", [&](AttentionProblem* p) { p->k.data = values + 1; });
  EXPECT_EQ(RowLseCuda(problem, -1, &lse, nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(RowLseCuda(problem, 0, nullptr, nullptr).code(), StatusCode::kInvalidArgument);
  TexelRequest request;
  request.level = 2;
  request.row_begin = 3;
  EXPECT_EQ(TexelsCuda(problem, 0, &lse, request, &lse, nullptr).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headscope::kernels
