// SPDX-License-Identifier: Apache-2.0
// What a decode method keeps on the last rows, beside the measured run's numbers and against plain counting; its mask
// tiles; and how a run reports its repeats.
#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/tiles.h"
#include "support/stopped.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using kernels::ColumnRange;
using testing::RandomHead;

kernels::ParameterValues Values(const kernels::MethodSpec& spec, const std::string& text) {
  kernels::ParameterValues values(spec);
  EXPECT_EQ(values.Parse(spec, text), "");
  return values;
}

bool Keeps(const KeptStep& step, int64_t column) {
  for (const ColumnRange& range : step.kept) {
    if (column >= range.begin && column < range.end) return true;
  }
  return false;
}

struct PreviewCase {
  const char* name;
  const char* method;
  const char* values;
  int32_t window;
  int64_t row_step;
  int32_t rows;
};

class DecodePreviewOf : public ::testing::TestWithParam<PreviewCase> {
 protected:
  DecodePreviewOf()
      : head_(RandomHead({.num_tokens = 300, .row_step = GetParam().row_step, .window = GetParam().window}, 5)),
        method_(*kernels::FindDecodeMethod(GetParam().method)),
        values_(Values(method_.spec(), GetParam().values)) {}

  const HeadTensorsPtr head_;
  const kernels::DecodeMethod& method_;
  const kernels::ParameterValues values_;
};

TEST_P(DecodePreviewOf, SaysWhatTheMeasuredRunSays) {
  DecodePreview preview;
  ASSERT_TRUE(PreviewDecode(*AloneHead(head_), head_->id, method_, values_, GetParam().rows, 2, {}, &preview).ok());
  HeadComparison comparison(head_, {.repeats = 1, .decode_rows = GetParam().rows});
  MethodResult run;
  ASSERT_TRUE(comparison.Run(std::string("decode/") + GetParam().method, values_, &run).ok());
  EXPECT_DOUBLE_EQ(preview.summary.kept_fraction, run.kept_fraction);
  EXPECT_NEAR(preview.summary.cra_min, run.cra_min, 1e-6);
  EXPECT_NEAR(preview.summary.cra_mean, run.cra_mean, 1e-6);
  EXPECT_EQ(preview.summary.parameters, run.parameters);
  EXPECT_EQ(preview.summary.method, run.method);
}

TEST_P(DecodePreviewOf, MassAndWorstQueryAreThoseOfTheKeptColumns) {
  DecodePreview preview;
  ASSERT_TRUE(PreviewDecode(*AloneHead(head_), head_->id, method_, values_, GetParam().rows, 0, {}, &preview).ok());
  const std::vector<double> p = testing::AllProbabilities(*head_);
  ASSERT_EQ(preview.steps->steps.size(), static_cast<size_t>(GetParam().rows));
  EXPECT_EQ(preview.steps->end_row(), head_->num_rows);
  double least = 2;
  int64_t worst = -1;
  for (int64_t row = preview.steps->first_row; row < head_->num_rows; ++row) {
    const auto i = static_cast<size_t>(row - preview.steps->first_row);
    const KeptStep& step = preview.steps->steps[i];
    EXPECT_EQ(step.position, head_->row_positions[static_cast<size_t>(row)]);
    EXPECT_EQ(step.attended, head_->AttendedColumns(row));
    double mass = 0;
    for (int64_t column = 0; column < head_->num_tokens; ++column) {
      if (Keeps(step, column)) mass += p[static_cast<size_t>(row * head_->num_tokens + column)];
    }
    EXPECT_NEAR(static_cast<double>(preview.kept_mass[i]), mass, 1e-5) << row;
    if (mass < least) {
      least = mass;
      worst = step.position;
    }
    for (size_t r = 0; r < step.kept.size(); ++r) {
      EXPECT_LT(step.kept[r].begin, step.kept[r].end);
      if (r > 0) {
        EXPECT_GT(step.kept[r].begin, step.kept[r - 1].end) << "disjoint and maximal";
      }
      EXPECT_GE(step.kept[r].begin, step.attended.begin);
      EXPECT_LE(step.kept[r].end, step.attended.end);
    }
  }
  EXPECT_EQ(preview.summary.worst_row, worst);
}

TEST_P(DecodePreviewOf, MaskTilesCountTheStepsRowsAndLeaveTheOthersAlone) {
  DecodePreview preview;
  ASSERT_TRUE(PreviewDecode(*AloneHead(head_), head_->id, method_, values_, GetParam().rows, 0, {}, &preview).ok());
  const auto key_of = [](int32_t level, int32_t x, int32_t y) { return TileKey{{}, TileReduction::kMax, level, x, y}; };
  for (const TileKey& key : {key_of(0, 0, 0), key_of(0, 1, 1), key_of(0, 1, 0), key_of(2, 0, 0)}) {
    const MaskTilePtr tile = ComputeMaskTile(*preview.steps, key);
    const int64_t size = int64_t{1} << key.level;
    for (int64_t y = 0; y < kTileSize; ++y) {
      for (int64_t x = 0; x < kTileSize; ++x) {
        int64_t kept = 0, pairs = 0, step_rows = 0;
        for (int64_t row = (key.y * kTileSize + y) * size; row < (key.y * kTileSize + y + 1) * size; ++row) {
          if (row < preview.steps->first_row || row >= head_->num_rows) continue;
          ++step_rows;
          const ColumnRange attended = head_->AttendedColumns(row);
          const KeptStep& step = preview.steps->steps[static_cast<size_t>(row - preview.steps->first_row)];
          for (int64_t column = (key.x * kTileSize + x) * size; column < (key.x * kTileSize + x + 1) * size; ++column) {
            if (column < attended.begin || column >= attended.end) continue;
            ++pairs;
            if (Keeps(step, column)) ++kept;
          }
        }
        const int shown = tile->kept[static_cast<size_t>(y * kTileSize + x)];
        if (step_rows == 0) {
          ASSERT_EQ(shown, 255) << "no step, nothing left out: " << y << ", " << x;
        } else if (kept == 0 || kept == pairs) {
          ASSERT_EQ(shown, kept == 0 ? 0 : 255) << y << ", " << x;
        } else {
          ASSERT_NEAR(shown, 255.0 * static_cast<double>(kept) / static_cast<double>(pairs), 0.51) << y << ", " << x;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, DecodePreviewOf,
    ::testing::Values(PreviewCase{"sparq", "sparq", "r=8,k=24", 0, 1, 16},
                      PreviewCase{"sparq_in_a_window", "sparq", "r=4,k=12,local_share=0.5", 40, 1, 9},
                      PreviewCase{"sparq_on_rows_with_gaps", "sparq", "r=8,k=24", 0, 7, 5},
                      PreviewCase{"sliding_window_with_sinks", "sliding-window", "n_local=20,n_sink=3", 0, 1, 300},
                      PreviewCase{"sliding_window_beyond_the_models", "sliding-window", "n_local=64,n_sink=4", 30, 1,
                                  12},
                      PreviewCase{"dense", "dense", "", 0, 1, 1}),
    [](const auto& preview) { return std::string(preview.param.name); });

TEST(DecodePreview, NeedsARowWithItsOwnKeyAndCanBeCancelled) {
  const kernels::DecodeMethod& method = *kernels::FindDecodeMethod("sparq");
  HeadTensors head = *RandomHead({.num_tokens = 50}, 1);
  DecodePreview preview;
  const std::stop_token stopped = StoppedToken();
  const auto look = [&](const std::stop_token& stop) {
    return PreviewDecode(*AloneHead(std::make_shared<HeadTensors>(head)), head.id, method,
                         kernels::ParameterValues(method.spec()), 4, 0, stop, &preview);
  };
  EXPECT_EQ(look(stopped).code(), kernels::StatusCode::kCancelled);
  EXPECT_EQ(preview.steps, nullptr);
  head.row_positions.back() = 50;  // as of a trace that ended between a query and its key
  const kernels::Status status = look({});
  EXPECT_EQ(status.code(), kernels::StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("own key"), std::string::npos) << status.message();
}

// In its layer the query heads of a KV head share SparQ's choice: what is drawn is what a run of the layer keeps.
TEST(DecodePreview, ChoosesInAGroupAsARunOfTheLayerDoes) {
  const testing::RandomLayer layer = testing::MakeRandomLayer({.num_tokens = 300}, 2, 4, 7);
  const kernels::DecodeMethod& method = *kernels::FindDecodeMethod("sparq");
  const kernels::ParameterValues values = Values(method.spec(), "r=8,k=24");
  for (const HeadId head : {HeadId{3, 1}, HeadId{3, 6}}) {
    DecodePreview in_layer, alone;
    ASSERT_TRUE(PreviewDecode(*layer.measured, head, method, values, 6, 0, {}, &in_layer).ok());
    const HeadTensorsPtr tensors = layer.heads[static_cast<size_t>(head.head)];
    ASSERT_TRUE(PreviewDecode(*AloneHead(tensors), head, method, values, 6, 0, {}, &alone).ok());
    EXPECT_EQ(in_layer.chosen_per, kernels::ChosenPer::kKvHead);
    EXPECT_EQ(alone.chosen_per, kernels::ChosenPer::kQueryHead);
    EXPECT_NE(in_layer.kept_mass, alone.kept_mass) << "another choice";
    LayerComparison comparison(layer.measured, {.repeats = 1, .decode_rows = 6});
    std::vector<MethodResult> runs;
    ASSERT_TRUE(comparison.Run({{"sparq", values}}, {head}, &runs).ok());
    EXPECT_EQ(runs[0].chosen_per, in_layer.chosen_per);
    EXPECT_DOUBLE_EQ(in_layer.summary.kept_fraction, runs[0].kept_fraction);
    EXPECT_NEAR(in_layer.summary.cra_min, runs[0].cra_min, 1e-6);
    EXPECT_NEAR(in_layer.summary.cra_mean, runs[0].cra_mean, 1e-6);
  }
}

// Every repeat is announced once, in order, for the baseline and for the method; the one that warms up is number 0.
TEST(RepeatProgressTest, CountsTheRepeatsOfBaselineAndMethod) {
  std::vector<std::string> reports;
  CompareOptions options;
  options.repeats = 2;
  options.progress = [&](const RepeatProgress& progress) {
    EXPECT_EQ(progress.repeats, 2);
    reports.push_back(std::string(progress.method) + " " + std::string(NameOf(progress.phase)) + " " +
                      std::to_string(progress.repeat));
  };
  HeadComparison comparison(RandomHead({.num_tokens = 64}, 3), options);
  MethodResult result;
  const kernels::MethodSpec& a_shape = kernels::FindPrefillMethod("a-shape")->spec();
  ASSERT_TRUE(comparison.Run("a-shape", kernels::ParameterValues(a_shape), &result).ok());
  // In turn, and the other way round in the next round.
  const std::vector<std::string> rounds = {"a-shape prefill 0", "dense prefill 1", "a-shape prefill 1",
                                           "a-shape prefill 2", "dense prefill 2"};
  std::vector<std::string> expected = rounds;
  expected.insert(expected.begin(), "dense prefill 0");
  EXPECT_EQ(reports, expected);
  EXPECT_EQ(result.dense_attend.repeats, 2);
  EXPECT_GT(result.dense_attend.median_ms, 0);
  EXPECT_DOUBLE_EQ(result.speedup, result.dense_attend.median_ms / (result.select.median_ms + result.attend.median_ms));
  // A baseline this short is measured again with every call; it is warm.
  reports.clear();
  ASSERT_TRUE(comparison.Run("a-shape", kernels::ParameterValues(a_shape), &result).ok());
  EXPECT_EQ(reports, rounds);
  reports.clear();
  const kernels::MethodSpec& sparq = kernels::FindDecodeMethod("sparq")->spec();
  ASSERT_TRUE(comparison.Run("sparq", kernels::ParameterValues(sparq), &result).ok());
  EXPECT_EQ(reports, (std::vector<std::string>{"dense decode 0", "sparq decode 0", "dense decode 1",
                                               "reading keys and values decode 1", "sparq decode 1", "sparq decode 2",
                                               "reading keys and values decode 2", "dense decode 2"}));
}

}  // namespace
}  // namespace headscope::analysis
