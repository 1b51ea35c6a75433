// SPDX-License-Identifier: Apache-2.0
// What a mask keeps, in words that say of what a number is.
#include "kept_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "fake_workbench.h"
#include "map_overlay.h"

namespace headscope::ui {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

LiveMask MaskOf(size_t num_rows) {
  LiveMask mask;
  mask.kept_mass.assign(num_rows, 0.5f);
  mask.summary.cra_min = 0.25;
  mask.summary.cra_p5 = 0.375;
  mask.summary.cra_mean = 0.5;
  return mask;
}

TEST(KeptText, CraSaysOfHowManyQueriesAndWhichStatistic) {
  EXPECT_EQ(DescribeCra(MaskOf(4090)), "CRA of 4,090 queries: min 0.250, 5th percentile 0.375, mean 0.500");
  LiveMask steps = MaskOf(16);
  steps.steps = std::make_shared<analysis::KeptSteps>();
  EXPECT_EQ(DescribeCra(steps), "CRA of 16 steps: min 0.250, mean 0.500") << "16 rows have no 5th percentile";
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1234567), "1,234,567");
}

TEST(KeptText, ARunSaysHowOftenItWasRepeatedAndWhyMoreThanAsked) {
  analysis::MethodResult run;
  run.head = {8, 4};
  run.measured = {analysis::Measure::kLayer, 8, 2, 8};
  run.device = NamedCpu();
  run.baseline = "LibTorch";
  run.parameters = "n_sink=4";
  run.attend.repeats = run.asked_repeats = 3;
  const std::string asked = DescribeMeasured(run);
  EXPECT_EQ(asked, "layer 8: 8 heads on " + run.device.name +
                       ", dense by LibTorch, median ± deviation of 3 repeats, n_sink=4");
  run.attend.repeats = 500;
  EXPECT_THAT(DescribeMeasured(run), HasSubstr("of 500 repeats (short runs go on after 3, "));
  run.asked_repeats = 500;
  EXPECT_THAT(DescribeMeasured(run), HasSubstr("of 500 repeats, n_sink=4")) << "as asked for";
  run.asked_repeats = 0;
  EXPECT_THAT(DescribeMeasured(run), HasSubstr("of 500 repeats, n_sink=4")) << "an older file's";
  run.attend.repeats = 1;
  EXPECT_THAT(DescribeMeasured(run), HasSubstr("LibTorch, 1 repeat, n_sink=4")) << "one has no median";
  run.phase = kernels::Phase::kDecode;
  run.chosen_per = kernels::ChosenPer::kKvHead;
  run.parameters.clear();
  EXPECT_THAT(DescribeMeasured(run), HasSubstr(", per decode step, dense by LibTorch, 1 repeat, chosen per KV head"));
}

TEST(KeptText, ACutTraceSaysWhatNoMaskCanKeep) {
  LiveMask mask = MaskOf(100);
  EXPECT_EQ(DescribeOutside(mask), "");
  mask.outside_mass = 0.581;
  EXPECT_EQ(DescribeOutside(mask), "58.1 % of the attention lies on tokens before the cut");
}

TEST(KeptText, ADenseLayerIsNoMatterOfTheParametersThatKeepMuch) {
  analysis::MaskSummary summary;
  summary.method = "quest";
  summary.head = {1, 5};
  summary.dense_by = "dense_layers";
  EXPECT_EQ(DescribeDenseLayer(summary), "quest leaves layer 1 dense. With dense_layers at 0 it chooses there, too.");
}

TEST(KeptText, CountsOfTokensAreGrouped) {
  EXPECT_EQ(DescribeKeepsEverything(16384), "These parameters keep everything at 16,384 tokens.");
  FakeWorkbench workbench(1200);
  CanvasModel model;
  model.SetWorkbench(&workbench);
  model.SetTrace(workbench.Summary());
  ASSERT_TRUE(model.ShowHead({0, 0}));
  model.LayOut({900, 700});
  EXPECT_THAT(CaptionOf(model, model.view()).source, HasSubstr("1,200 tokens: queries 0 to 1199"));
}

TEST(KeptText, ALiveRunSaysItsTimeAndItsErrorAndWhetherRowsWereSampled) {
  analysis::LiveRun run{.attend_ms = 12.34,
                        .dense_attend_ms = 41,
                        .relative_error = 0.0123,
                        .max_error = 0.5,
                        .checked_rows = 4090,
                        .num_rows = 4090,
                        .device = {},
                        .note = {}};
  EXPECT_THAT(DescribeLive(run, false),
              ElementsAre("one run 12.3 ms, dense 41 ms (3.3×)", "relative error 1.23e-02, max 5.00e-01"));
  run.dense_times = 1;
  run.dense_age_s = 0.6;
  EXPECT_EQ(DescribeLive(run, false).front(), "one run 12.3 ms, dense 41 ms (3.3×)") << "just now";
  run.dense_age_s = 11.6;
  EXPECT_EQ(DescribeLive(run, false).front(), "one run 12.3 ms, dense 41 ms (3.3×), timed 12 s ago");
  run.dense_times = 4;
  EXPECT_EQ(DescribeLive(run, false).front(), "one run 12.3 ms, dense 41 ms (3.3×), the median of 4 times in 12 s");
  run.dense_times = 0;
  run.rounds = 3;
  EXPECT_EQ(DescribeLive(run, false).front(), "one run 12.3 ms, dense 41 ms (3.3×), medians of 3 in turn");
  run.device = {CudaDevice(0), "a GPU"};
  EXPECT_EQ(DescribeLive(run, false).front(), "on a GPU, one run 12.3 ms, dense 41 ms (3.3×), medians of 3 in turn");
  run.device = NamedCpu();
  run.note = "no memory is left there";
  EXPECT_EQ(DescribeLive(run, false).back(), "on the CPU: no memory is left there");
  run.note.clear();
  run.rounds = 0;
  const double attend_ms = std::exchange(run.attend_ms, 0);
  EXPECT_THAT(DescribeLive(run, false),
              ElementsAre("timed when the map is drawn …", "relative error 1.23e-02, max 5.00e-01"));
  run.attend_ms = attend_ms;
  // Of a head whose dense attention takes long, times of the same rows are compared.
  run.checked_rows = 1024;
  run.checked_attend_ms = 2;
  run.dense_times = 1;
  run.dense_age_s = 0;
  EXPECT_THAT(DescribeLive(run, false),
              ElementsAre("one run 12.3 ms; of 1,024 sampled queries, on one core, 2 ms, dense 41 ms (20.5×)",
                          "relative error 1.23e-02, max 5.00e-01, of 1,024 sampled queries"));
}

// Prefill methods run on the GPU where one holds the head exactly, decode methods on the CPU.
TEST(KeptText, HelpOnARunAtEveryChangeIsOfWhereTheMethodRuns) {
  EXPECT_THAT(HelpOnLive(/*is_decode=*/true), AllOf(HasSubstr("Attends on the CPU with"), HasSubstr("LibTorch"),
                                                    Not(HasSubstr("GPU")), Not(HasSubstr("minute"))));
  EXPECT_THAT(HelpOnLive(/*is_decode=*/false),
              AllOf(HasSubstr("Attends with"), HasSubstr("Where a GPU holds the head's numbers exactly"),
                    HasSubstr("Else it attends on the CPU"), Not(HasSubstr("LibTorch"))));
}

class KeptTextOfAHead : public ::testing::Test {
 protected:
  KeptTextOfAHead() : workbench_(600) {
    model_.SetWorkbench(&workbench_);
    TraceSummary trace = workbench_.Summary();
    trace.heads = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}};
    trace.kv_head_of_head = {0, 0, 1, 1, 0, 0};
    model_.SetTrace(trace);
  }
  testing::FakeWorkbench workbench_;
  CanvasModel model_;
};

TEST_F(KeptTextOfAHead, AChoiceThatHeadsShareNamesThem) {
  ASSERT_TRUE(model_.ShowHead({0, 1}));
  LiveMask mask = MaskOf(16);
  EXPECT_EQ(DescribeChoice(model_, mask), "") << "of a prefill method";
  mask.chosen_per = kernels::ChosenPer::kPlace;
  EXPECT_EQ(DescribeChoice(model_, mask), "");
  mask.chosen_per = kernels::ChosenPer::kQueryHead;
  EXPECT_EQ(DescribeChoice(model_, mask), "chosen per query head");
  mask.chosen_per = kernels::ChosenPer::kKvHead;
  EXPECT_EQ(DescribeChoice(model_, mask), "chosen per KV head, one selection for query heads 0 to 1");
}

TEST_F(KeptTextOfAHead, APicturesCaptionSaysThatItsTraceWasCut) {
  ASSERT_TRUE(model_.ShowHead({0, 1}));
  model_.LayOut({900, 700});
  workbench_.DeliverReplies();
  EXPECT_THAT(CaptionOf(model_, model_.view()).Legend(), HasSubstr(" % of the scores. CRA of 600 queries: min "));
  TraceSummary cut = model_.trace();
  cut.first_token = 300;
  workbench_.outside_mass = 0.25;
  model_.SetTrace(cut);
  ASSERT_TRUE(model_.ShowHead({0, 1}));
  workbench_.DeliverReplies();
  EXPECT_THAT(CaptionOf(model_, model_.view()).Legend(), HasSubstr(" % of the cut's scores. CRA of "));
  EXPECT_THAT(CaptionOf(model_, model_.view()).Legend(),
              HasSubstr("25.0 % of the attention lies on tokens before the cut"));
}

}  // namespace
}  // namespace headscope::ui
