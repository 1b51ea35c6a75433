// SPDX-License-Identifier: Apache-2.0
// What reaches beyond one head and out of the window, without a window: sweeps over all heads, trade-offs, command
// lines, the query that panes are about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "command_line.h"
#include "state_fixture.h"
#include "trade_off.h"
#include "worth_a_look.h"

namespace headscope::ui {
namespace {

using analysis::HeadId;
using ::testing::ElementsAre;

class ReachStateTest : public testing::StateTest {
 protected:
  ReachStateTest() {
    QObject::connect(&state_.sweep, &HeadSweep::Measured,
                     [this](const analysis::MethodResult& run) { measured_.push_back(run.head); });
    QObject::connect(&state_.sweep, &HeadSweep::Finished, [this] { ++num_finished_; });
    QObject::connect(&state_.sweep, &HeadSweep::Ended, [this] { ++num_ended_; });
  }
  std::vector<HeadId> measured_;
  int num_finished_ = 0, num_ended_ = 0;
};

TEST_F(ReachStateTest, EveryHeadIsTunedAndTheMatrixKnowsTheResult) {
  state_.trial.SetTarget(0.9);
  state_.sweep.Start(HeadSweep::Kind::kTune);
  EXPECT_TRUE(state_.sweep.running());
  Deliver();
  EXPECT_EQ(num_finished_, 1);
  EXPECT_EQ(workbench_.last_tuning.target.Text(), "cra-p5=0.9");
  ASSERT_EQ(workbench_.last_tuning.methods.size(), 1U);
  EXPECT_EQ(workbench_.last_tuning.methods[0].name, "band");
  const std::vector<TunedSetting> tuned = state_.sweep.Tuned();
  ASSERT_EQ(tuned.size(), 2U);
  EXPECT_EQ(tuned[1].head, (HeadId{0, 1}));
  EXPECT_EQ(tuned[1].values.Integer("window"), testing::FakeWorkbench::kFoundWindow + 1) << "each head has its own";
  EXPECT_EQ(state_.trial.values().Integer("window"), 64) << "the panel keeps what was set there";
  state_.heads.SetMetric("result.kept");
  EXPECT_EQ(state_.heads.MetricOf({0, 0}), 0.25);
  EXPECT_EQ(state_.heads.MetricOf({0, 1}), 0.75);
  EXPECT_TRUE(state_.sweep.Summary().contains(QStringLiteral("2 of them reach it, keeping 50.0 %")))
      << state_.sweep.Summary().toStdString();
}

// Kept pairs are of all rows: held-out ones say nothing of them, nor of a limit for them.
TEST_F(ReachStateTest, ASummarySaysOfHeldOutRowsWhatWasMeasuredOnThem) {
  TuneSettings settings = state_.sweep.TrialsTuning();
  const auto said = [&] {
    state_.sweep.Tune(settings);
    Deliver();
    const QString summary = state_.sweep.Summary();
    return summary.mid(summary.indexOf(QStringLiteral("on average.")) + 12).toStdString();
  };
  settings.checks = {"other.h5"};
  EXPECT_EQ(said(), "On the held-out traces 1 of them reach it, keeping 50.0 %.");
  settings.checks.clear();
  settings.check_rows = "every:4";
  EXPECT_EQ(said(), "On the held-out rows 1 of them reach it.");
  settings.target = {"kept", 0.3};
  EXPECT_EQ(said(), "The mean kept mass is 0.8000 on the held-out rows and 0.9000 on the others.");
}

TEST_F(ReachStateTest, AStoppedSweepGoesOnWithTheHeadsThatAreNotDone) {
  state_.sweep.Start(HeadSweep::Kind::kMeasure);
  workbench_.DeliverReplies(1);  // the first head's result
  EXPECT_THAT(measured_, ElementsAre(HeadId{0, 0}));
  state_.sweep.Stop();
  EXPECT_EQ(num_ended_, 1);
  Deliver();
  EXPECT_EQ(measured_.size(), 1U) << "an answer of a stopped sweep is dropped";
  ASSERT_TRUE(state_.sweep.CanResume());
  const int runs = workbench_.num_runs;
  state_.sweep.Resume();
  Deliver();
  EXPECT_THAT(measured_, ElementsAre(HeadId{0, 0}, HeadId{0, 1}));
  EXPECT_EQ(workbench_.num_runs, runs + 1) << "the first head is not measured again";
  EXPECT_EQ(num_finished_, 1);
  EXPECT_FALSE(state_.sweep.CanResume());
}

TEST_F(ReachStateTest, AHeadThatFailsIsToldOfAndTheOthersGoOn) {
  workbench_.fail_next_run = true;
  state_.sweep.Start(HeadSweep::Kind::kMeasure);
  Deliver();
  EXPECT_THAT(measured_, ElementsAre(HeadId{0, 1}));
  ASSERT_EQ(state_.sweep.failures().size(), 1);
  EXPECT_TRUE(state_.sweep.failures()[0].startsWith(QStringLiteral("0:0: ")));
  EXPECT_EQ(num_finished_, 1);
}

TEST_F(ReachStateTest, ASweepAndARunDoNotMeasureBesideEachOther) {
  state_.heads.Select({0, 1});
  state_.sweep.Start(HeadSweep::Kind::kMeasure);
  ASSERT_TRUE(state_.trial.Run(1));
  EXPECT_FALSE(state_.sweep.running());
  EXPECT_TRUE(state_.trial.running());
  state_.sweep.Resume();
  EXPECT_FALSE(state_.trial.running());
  Deliver();
  EXPECT_EQ(measured_.size(), 2U);
}

TEST_F(ReachStateTest, OnlyHeadsThatTheFilterShowsAreSwept) {
  state_.heads.SetFilter(HeadFilter::Parse(QStringLiteral("0:1")));
  state_.sweep.Start(HeadSweep::Kind::kMeasure);
  Deliver();
  EXPECT_THAT(measured_, ElementsAre(HeadId{0, 1}));
}

TEST(PaneOffersTest, PicturesAreListedInOrderAndGoWithTheirPane) {
  PaneOffers offers;
  int changes = 0;
  QObject::connect(&offers, &PaneOffers::PicturesChanged, [&] { ++changes; });
  QObject first;
  auto second = std::make_unique<QObject>();
  const auto offer = [&](QObject* pane, const char* name) {
    offers.OfferPicture(pane, {.name = QLatin1String(name),
                               .title = QStringLiteral("A title"),
                               .write = [](const QString& path, int) { return path; },
                               .why_not = [] { return QString(); }});
  };
  offer(&first, "b");
  offer(second.get(), "a");
  ASSERT_EQ(offers.pictures().size(), 2U);
  EXPECT_EQ(offers.pictures()[0].name, QStringLiteral("b"));
  EXPECT_EQ(offers.pictures()[1].name, QStringLiteral("a"));
  second.reset();
  ASSERT_EQ(offers.pictures().size(), 1U);
  EXPECT_EQ(offers.pictures()[0].name, QStringLiteral("b"));
  EXPECT_EQ(changes, 3);
}

TEST_F(ReachStateTest, HeadsGetTheBestOfSeveralMethods) {
  TuneSettings settings = state_.sweep.TrialsTuning();
  settings.methods.push_back(settings.methods.front());
  settings.target = {"kept", 0.25};
  state_.sweep.Tune(settings);
  Deliver();
  EXPECT_EQ(workbench_.last_tuning, settings);
  state_.heads.SetMetric("result.method");
  EXPECT_EQ(state_.heads.MetricOf({0, 0}), 1);
  EXPECT_EQ(state_.heads.MetricOf({0, 1}), 2);
  ASSERT_NE(state_.heads.ResultOf({0, 1}), nullptr);
  EXPECT_TRUE(state_.heads.ResultOf({0, 1})->setting.starts_with("band:window=78"))
      << state_.heads.ResultOf({0, 1})->setting;
  const QString summary = state_.sweep.Summary();
  EXPECT_TRUE(summary.startsWith(QStringLiteral("The best of 2 methods tuned at kept=0.25"))) << summary.toStdString();
  EXPECT_TRUE(summary.contains(QStringLiteral("band for 1, band for 1."))) << summary.toStdString();
}

// What is done of a layer is not what the whole layer reaches.
TEST_F(ReachStateTest, AStoppedTuningGoesOnWithWholeUnits) {
  TuneSettings settings = state_.sweep.TrialsTuning();
  for (const auto& [unit, num_left] :
       {std::pair{TuneSettings::Unit::kHead, 1U}, std::pair{TuneSettings::Unit::kLayer, 2U},
        std::pair{TuneSettings::Unit::kModel, 2U}}) {
    settings.unit = unit;
    state_.sweep.Tune(settings);
    workbench_.DeliverReplies(1);
    ASSERT_EQ(state_.sweep.num_done(), 1U);
    state_.sweep.Stop();
    state_.sweep.Resume();
    EXPECT_EQ(workbench_.last_tuned_heads.size(), num_left);
    Deliver();
    EXPECT_EQ(state_.sweep.num_done(), 2U);
  }
}

TEST_F(ReachStateTest, AMethodWithoutABudgetIsNotTuned) {
  ASSERT_TRUE(state_.trial.SelectMethod("newest"));
  EXPECT_FALSE(state_.sweep.CanTune());
  state_.sweep.Start(HeadSweep::Kind::kTune);
  EXPECT_FALSE(state_.sweep.running());
  EXPECT_EQ(workbench_.num_tuned, 0);
}

TEST_F(ReachStateTest, AnotherTraceForgetsTheSweepAndItsColours) {
  state_.sweep.Start(HeadSweep::Kind::kTune);
  Deliver();
  state_.heads.SetMetric("result.kept");
  EXPECT_FALSE(std::isnan(state_.heads.MetricOf({0, 0})));
  state_.heads.SetTrace(workbench_.Summary());
  state_.heads.SetMetric("result.kept");
  EXPECT_TRUE(state_.sweep.Tuned().empty());
  EXPECT_TRUE(std::isnan(state_.heads.MetricOf({0, 0})));
}

TEST_F(ReachStateTest, TheChosenQueryStaysWhenThePointerLeaves) {
  QueryFocus focus;
  int changes = 0;
  qint64 row = -1, column = -1;
  QObject::connect(&focus, &QueryFocus::Changed, [&] { ++changes; });
  QObject::connect(&focus, &QueryFocus::GoToWanted, [&](qint64 r, qint64 c) {
    row = r;
    column = c;
  });
  focus.Point(7, 3);
  EXPECT_EQ(focus.row(), 7);
  EXPECT_EQ(focus.column(), 3);
  focus.Leave();
  EXPECT_EQ(focus.row(), 7) << "so that what a pane says of it can be clicked";
  EXPECT_FALSE(focus.column());
  EXPECT_EQ(focus.key(), 3) << "with its query";
  focus.GoTo(9, 2);
  EXPECT_EQ(focus.row(), 9);
  EXPECT_EQ(focus.key(), 2);
  EXPECT_FALSE(focus.column()) << "the pointer is not there";
  EXPECT_EQ(row, 9);
  EXPECT_EQ(column, 2);
  focus.Choose(9);
  EXPECT_FALSE(focus.key()) << "the query alone";
  const int before = changes;
  focus.Choose(9);
  EXPECT_EQ(changes, before) << "nothing changed";
}

TEST_F(ReachStateTest, AQueryChosenByTheFirstClickOfADoubleClickIsPutBack) {
  QueryFocus focus;
  focus.Point(7, 3);
  focus.Choose(5);  // by a key, while the pointer rests on the map
  focus.ChooseByClick(7, 3);
  EXPECT_EQ(focus.row(), 7);
  focus.TakeBackClick();
  EXPECT_EQ(focus.row(), 5);
  focus.TakeBackClick();
  EXPECT_EQ(focus.row(), 5) << "once";
  focus.Point(7, 3);
  focus.ChooseByClick(7, 3);
  focus.TakeBackClick();
  EXPECT_EQ(focus.column(), 3) << "the pointer is where it was";
  focus.ChooseByClick(7, 3);
  focus.Choose(9);
  focus.TakeBackClick();
  EXPECT_EQ(focus.row(), 9) << "chosen since";
}

TEST_F(ReachStateTest, ABrushIsToldOfOnce) {
  int changes = 0;
  QObject::connect(&state_.trial, &MethodTrial::Changed, [&] { ++changes; });
  state_.trial.SetBrush(std::pair{0.0, 0.5});
  state_.trial.SetBrush(std::pair{0.0, 0.5});
  EXPECT_EQ(changes, 1);
}

analysis::MethodResult RunOf(const char* method, double kept, double cra_p5, double ms) {
  analysis::MethodResult run;
  run.head = {4, 3};
  run.method = method;
  run.phase = kernels::Phase::kPrefill;
  run.kept_fraction = kept;
  run.cra_p5 = cra_p5;
  run.attend.median_ms = ms;
  return run;
}

TEST(TradeOffTest, TheFrontHasTheRunsThatNoOtherBeats) {
  const std::vector<analysis::MethodResult> runs = {RunOf("dense", 1, 1, 10), RunOf("good", 0.2, 0.95, 3),
                                                    RunOf("worse", 0.3, 0.90, 2), RunOf("cheap", 0.1, 0.5, 1),
                                                    RunOf("equal", 0.2, 0.95, 3)};
  const auto points =
      MakeTradeOff(runs, {4, 3}, kernels::Phase::kPrefill, CostAxis::kKeptShare, QualityAxis::kCraFifth);
  ASSERT_EQ(points.size(), 5U);
  EXPECT_FALSE(points[2].on_front) << "good costs less and keeps more";
  std::vector<std::string> front;
  for (const TradeOffPoint& point : Front(points)) front.push_back(runs[point.run].method);
  EXPECT_THAT(front, ElementsAre("cheap", "good", "equal", "dense")) << "of equal ones neither beats the other";
  // By time, "worse" is one of them.
  const auto by_time =
      MakeTradeOff(runs, {4, 3}, kernels::Phase::kPrefill, CostAxis::kMilliseconds, QualityAxis::kCraFifth);
  EXPECT_TRUE(by_time[2].on_front);
}

TEST(TradeOffTest, OfAnErrorLessIsBetterAndOtherHeadsAreNoPoints) {
  std::vector<analysis::MethodResult> runs = {RunOf("a", 0.2, 1, 1), RunOf("b", 0.2, 1, 1), RunOf("other", 0.1, 1, 1)};
  runs[0].relative_error = 0.1;
  runs[1].relative_error = 0.2;
  runs[2].head = {0, 0};
  const auto points =
      MakeTradeOff(runs, {4, 3}, kernels::Phase::kPrefill, CostAxis::kKeptShare, QualityAxis::kRelativeError);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_TRUE(points[0].on_front);
  EXPECT_FALSE(points[1].on_front);
  EXPECT_TRUE(MakeTradeOff(runs, {4, 3}, kernels::Phase::kDecode, CostAxis::kKeptShare, QualityAxis::kCraMean).empty());
}

TEST(TradeOffTest, TheAxesFitTheRuns) {
  const std::vector<analysis::MethodResult> close = {RunOf("dense", 1, 1, 10), RunOf("near", 0.95, 0.99, 9)};
  const auto points =
      MakeTradeOff(close, {4, 3}, kernels::Phase::kPrefill, CostAxis::kKeptShare, QualityAxis::kCraFifth);
  const TradeOffAxis share = CostAxisOf(points, CostAxis::kKeptShare);
  EXPECT_GT(share.begin, 0.9) << "two runs that keep nearly all are told apart";
  EXPECT_LT(share.begin, 0.95);
  EXPECT_EQ(share.end, 1);
  const auto by_time =
      MakeTradeOff(close, {4, 3}, kernels::Phase::kPrefill, CostAxis::kMilliseconds, QualityAxis::kCraFifth);
  const TradeOffAxis time = CostAxisOf(by_time, CostAxis::kMilliseconds);
  EXPECT_GT(time.begin, 6);
  EXPECT_LT(time.begin, 9);
  EXPECT_GT(time.end, 10);
  const TradeOffAxis mass = QualityAxisOf(points, QualityAxis::kCraFifth, 0.95);
  EXPECT_LT(mass.begin, 0.95) << "the target is on it";
  EXPECT_EQ(mass.end, 1);
  // Runs that cost the same have an axis that can be read, and those that took no time at all have one.
  std::vector<TradeOffPoint> same = {points[0]};
  same[0].cost = 0.5;
  EXPECT_GE(CostAxisOf(same, CostAxis::kKeptShare).end - CostAxisOf(same, CostAxis::kKeptShare).begin, 0.02);
  EXPECT_NEAR(CostAxisOf(same, CostAxis::kKeptShare).Place(0.5), 0.5, 1e-9);
  same[0].cost = 0;
  EXPECT_EQ(CostAxisOf(same, CostAxis::kMilliseconds).begin, 0);
  EXPECT_GT(CostAxisOf(same, CostAxis::kMilliseconds).end, 0);
  // Every point lies inside, one alone too.
  for (const auto& some : {points, std::vector<TradeOffPoint>{points[0]}, std::vector<TradeOffPoint>{}}) {
    for (const CostAxis cost : {CostAxis::kKeptShare, CostAxis::kMilliseconds}) {
      const TradeOffAxis axis = CostAxisOf(some, cost);
      EXPECT_LT(axis.begin, axis.end);
      for (const TradeOffPoint& point : some) {
        EXPECT_GE(axis.Place(point.cost), 0);
        EXPECT_LE(axis.Place(point.cost), 1);
      }
    }
  }
}

TEST(CommandLineTest, WhatAShellWouldReadOtherwiseIsQuoted) {
  EXPECT_EQ(ShellQuoted(QStringLiteral("a/b-1.h5")), QStringLiteral("a/b-1.h5"));
  EXPECT_EQ(ShellQuoted(QStringLiteral("my trace.h5")), QStringLiteral("'my trace.h5'"));
  EXPECT_EQ(ShellQuoted(QStringLiteral("it's")), QStringLiteral("'it'\\''s'"));
  EXPECT_EQ(ShellQuoted(QString()), QStringLiteral("''"));
  EXPECT_EQ(ShellQuoted(QStringLiteral("$HOME")), QStringLiteral("'$HOME'"));
  EXPECT_EQ(ShellQuoted(QStringLiteral("Hello\n")), QStringLiteral("'Hello\n'"));
}

TEST(CommandLineTest, ARunsCommandNamesAllThatItDependsOn) {
  analysis::MethodResult run = RunOf("a-shape", 0.2, 1, 1);
  run.parameters = "window=64,sinks=4";
  run.measured = {analysis::Measure::kLayer, 8, 2, 8};
  run.attend.repeats = 3;
  run.device = NamedCpu();
  const QString method = QStringLiteral("a-shape:window=64,sinks=4");
  EXPECT_EQ(CompareCommand(QStringLiteral("t.h5"), method, run),
            QStringLiteral("headscope compare t.h5 --method a-shape:window=64,sinks=4 --heads 4:3 --repeat 3"));
  run.measured = {analysis::Measure::kHead, 1, 1, 0};
  run.phase = kernels::Phase::kDecode;
  run.num_rows = 16;
  EXPECT_TRUE(CompareCommand(QStringLiteral("t.h5"), method, run).contains(QStringLiteral("--measure head")));
  EXPECT_TRUE(CompareCommand(QStringLiteral("t.h5"), method, run).contains(QStringLiteral("--decode-rows 16")));
  EXPECT_FALSE(CompareCommand(QStringLiteral("t.h5"), method, run).contains(QStringLiteral("--device")));
  run.device = {CudaDevice(1), "NVIDIA H200 (cuda:1)"};
  EXPECT_TRUE(CompareCommand(QStringLiteral("t.h5"), method, run).contains(QStringLiteral("--device cuda:1")));
}

TEST(CommandLineTest, ADifferencesCommandNamesTwoTracesOrTwoMethods) {
  EXPECT_EQ(TraceDifferenceCommand(QStringLiteral("/a.h5"), QStringLiteral("/its b.h5")).toStdString(),
            "headscope diff /a.h5 '/its b.h5'");
  EXPECT_EQ(
      TraceDifferenceCommand(QStringLiteral("/a.h5"), QStringLiteral("/b.h5"), QStringLiteral("entropy")).toStdString(),
      "headscope diff /a.h5 /b.h5 --metrics entropy");
  EXPECT_EQ(MaskDifferenceCommand(QStringLiteral("/a.h5"), {4, 3}, QStringLiteral("a-shape:n_sink=4"),
                                  QStringLiteral("dense"))
                .toStdString(),
            "headscope diff /a.h5 --method a-shape:n_sink=4 --method dense --heads 4:3");
}

TEST(CommandLineTest, ACapturesCommandNamesWhatIsNotTheCommandsDefault) {
  CaptureSettings settings;
  settings.model_dir = "/m";
  settings.prompt_text = "-it's \"so\"\n";
  settings.output_path = "/out.h5";
  EXPECT_EQ(CaptureCommand(settings).toStdString(), "headscope capture /m --text '-it'\\''s \"so\"\n' -o /out.h5");
  settings.prompt_file = "/my prompt.txt";
  EXPECT_EQ(CaptureCommand(settings).toStdString(), "headscope capture /m --prompt '/my prompt.txt' -o /out.h5");
  settings.prompt_ids = {5, 17};
  EXPECT_EQ(CaptureCommand(settings).toStdString(), "headscope capture /m --tokens 5,17 -o /out.h5");
  settings.task = "passkey";
  settings.task_length = 512;
  settings.layers = "0-3,7";
  settings.heads = "1";
  settings.rows = "last:64";
  settings.decode_tokens = 8;
  settings.record = {{"cache", "", {}}, {"residual", "", {}}};
  settings.dtype = ElementType::kBFloat16;
  settings.device = CudaDevice(1);
  settings.num_files = 2;
  EXPECT_EQ(CaptureCommand(settings).toStdString(),
            "headscope capture /m --task passkey --length 512 --layers 0-3,7 --heads 1 --rows last:64 --decode 8 "
            "--record cache,residual --dtype bf16 --device cuda:1 --files 2 -o /out.h5");
  settings.heads.clear();
  settings.kv_heads = "0";
  settings.place_by_memory = true;
  EXPECT_TRUE(CaptureCommand(settings).contains(QStringLiteral(" --kv-heads 0 ")));
  EXPECT_TRUE(CaptureCommand(settings).contains(QStringLiteral(" --device auto ")));
}

TEST_F(ReachStateTest, HeadsWorthALookAreTheExtremesAndEachIsNamedOnce) {
  TraceSummary trace = workbench_.Summary();
  trace.heads = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
  trace.kv_head_of_head = {0, 0, 0, 0};
  state_.heads.SetTrace(trace);
  EXPECT_TRUE(HeadsWorthALook(state_.heads).empty()) << "nothing is known yet";
  const auto add = [&](int32_t head, double sparsity, analysis::HeadClass head_class) {
    analysis::HeadStatistics statistics;
    statistics.id = {0, head};
    statistics.head_class = head_class;
    statistics.sparsity = {{.target = 0.95, .sparsity = sparsity}};
    state_.heads.Add(statistics);
  };
  add(0, 0.5, analysis::HeadClass::kDiffuse);
  add(1, 0.9, analysis::HeadClass::kRetrieval);
  add(2, 0.99, analysis::HeadClass::kSinkLocal);
  add(3, 0.2, analysis::HeadClass::kDiffuse);
  std::vector<HeadId> found;
  for (const HeadWorthALook& one : HeadsWorthALook(state_.heads)) found.push_back(one.head);
  EXPECT_THAT(found, ElementsAre(HeadId{0, 1}, HeadId{0, 2}, HeadId{0, 3}));
  EXPECT_TRUE(HeadsWorthALook(state_.heads)[2].why.contains(QStringLiteral("80.0 %")))
      << HeadsWorthALook(state_.heads)[2].why.toStdString();
}

TEST_F(ReachStateTest, ATuningsCommandLeavesOutWhatTheSearchFinds) {
  TuneSettings settings = state_.sweep.TrialsTuning();
  const auto& registry = state_.trial.methods();
  EXPECT_EQ(TuneCommand(QStringLiteral("t.h5"), registry, settings),
            QStringLiteral("headscope tune t.h5 --method band:sinks=4,share=0.5,exact=0 --target cra-p5=0.95"));
  settings.methods.push_back(settings.methods.front());
  settings.target = {"kept", 0.2};
  settings.unit = TuneSettings::Unit::kLayer;
  EXPECT_EQ(TuneCommand(QStringLiteral("t.h5"), registry, settings, {{0, 1}, {3, 2}}),
            QStringLiteral("headscope tune t.h5 --method band:sinks=4,share=0.5,exact=0 --method "
                           "band:sinks=4,share=0.5,exact=0 --target kept=0.2 --per layer --heads 0:1,3:2"));
  settings.methods.pop_back();
  settings.target = {"work", 0.2};
  settings.unit = TuneSettings::Unit::kHead;
  settings.choose = TuneSettings::Choice::kMass;
  settings.check_rows = "every:4";
  settings.from_budgets = true;
  EXPECT_TRUE(TuneCommand(QStringLiteral("t.h5"), registry, settings)
                  .endsWith(QStringLiteral(" --target work=0.2 --choose mass --check-rows every:4")));
  TuneSettings without = settings;
  without.from_budgets = false;
  EXPECT_GT(TuneCommand(QStringLiteral("t.h5"), registry, settings).size(),
            TuneCommand(QStringLiteral("t.h5"), registry, without).size())
      << "where the search starts is in it";
}

// A decode method is tuned on the trace's steps, in the group that shares a selection: the command says both.
TEST_F(ReachStateTest, ADecodeTuningsCommandSaysWhereItIsJudged) {
  TraceSummary with_steps = workbench_.Summary();
  with_steps.decode_rows = 40;
  state_.heads.SetTrace(with_steps);
  TuneSettings settings = state_.sweep.TrialsTuning();
  EXPECT_EQ(state_.sweep.OnTrace(settings), settings) << "a prefill method";
  const auto& registry = state_.trial.methods();
  const auto decode = std::ranges::find(registry, "newest", &kernels::MethodSpec::name);
  ASSERT_NE(decode, registry.end());
  settings.methods = {{decode->name, kernels::ParameterValues(*decode)}};
  const auto end_of_command = [&] {
    const QString command = TuneCommand(QStringLiteral("t.h5"), registry, state_.sweep.OnTrace(settings));
    return command.mid(command.indexOf(QStringLiteral("--target"))).toStdString();
  };
  EXPECT_EQ(end_of_command(), "--target cra-p5=0.95 --decode-rows 40 --group");
  state_.sweep.Tune(settings);
  EXPECT_EQ(workbench_.last_tuning, state_.sweep.OnTrace(settings)) << "the window asks for the same";
  Deliver();
  settings.unit = TuneSettings::Unit::kLayer;
  EXPECT_EQ(end_of_command(), "--target cra-p5=0.95 --per layer --decode-rows 40");
  settings.unit = TuneSettings::Unit::kHead;
  workbench_.SetMeasuresAlone(true);
  EXPECT_EQ(end_of_command(), "--target cra-p5=0.95 --decode-rows 40");
}

}  // namespace
}  // namespace headscope::ui
