// SPDX-License-Identifier: Apache-2.0
// What the window knows, without a window: selection, the method under trial, its history, the queue of runs.
#include "window_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QCoreApplication>
#include <vector>

#include "state_fixture.h"

namespace headscope::ui {
namespace {

using ::testing::ElementsAre;
using Work = RunQueue::Work;

class WindowStateTest : public testing::StateTest {
 protected:
  WindowStateTest() {
    QObject::connect(&state_.queue, &RunQueue::Began, [this](Work work) { under_way_.push_back(work); });
    QObject::connect(&state_.queue, &RunQueue::Ended, [this](Work work) { std::erase(under_way_, work); });
    QObject::connect(&state_.queue, &RunQueue::Measured,
                     [this](const analysis::MethodResult& run) { measured_.push_back(run.method); });
  }
  std::vector<Work> under_way_;
  std::vector<std::string> measured_;
};

TEST_F(WindowStateTest, ASelectedHeadIsUnderTrialAndInTheHistory) {
  EXPECT_FALSE(state_.trial.head());
  state_.heads.Select({0, 1});
  EXPECT_EQ(state_.trial.head(), (analysis::HeadId{0, 1}));
  Deliver();
  ASSERT_TRUE(state_.trial.mask());
  state_.StepHead(-1);
  EXPECT_EQ(state_.heads.selected(), (analysis::HeadId{0, 0}));
  EXPECT_FALSE(state_.trial.mask()) << "of the head before";
  ASSERT_TRUE(state_.history.CanGoBack());
  EXPECT_EQ(state_.history.Back(), (analysis::HeadId{0, 1}));
  state_.heads.SetTrace(workbench_.Summary());
  EXPECT_FALSE(state_.trial.head());
}

// A list that follows the registry would have the methods of a family at several places.
TEST_F(WindowStateTest, MethodsOfAFamilyStandTogetherInBothPhases) {
  std::vector<kernels::MethodSpec> registered;
  const auto add = [&](const char* name, const char* family, kernels::Phase phase) {
    kernels::MethodSpec& spec = registered.emplace_back();
    spec.name = name;
    spec.family = family;
    spec.phase = phase;
    spec.baseline = spec.family == "dense";
  };
  for (const kernels::Phase phase : {kernels::Phase::kDecode, kernels::Phase::kPrefill}) {
    const bool decode = phase == kernels::Phase::kDecode;
    add("dense", "dense", phase);
    add(decode ? "static step" : "static 1", "static", phase);
    add(decode ? "dynamic step" : "dynamic 1", "dynamic", phase);
    add(decode ? "static step 2" : "static 2", "static", phase);
  }
  workbench_.SetMethods(registered);
  state_.trial.ReloadMethods();
  std::vector<std::string> listed;
  for (const kernels::MethodSpec& spec : state_.trial.methods()) listed.push_back(spec.name);
  EXPECT_THAT(listed, ElementsAre("dense", "static 1", "static 2", "dynamic 1", "static step", "static step 2",
                                  "dynamic step"));
  state_.trial.SelectMethod("static 1");
  state_.trial.StepMethod(1);
  EXPECT_EQ(state_.trial.method()->name, "static 2") << "keys walk the list as it is shown";
}

TEST_F(WindowStateTest, ADifferenceIsAnEstimateUntilBothTracesAreExact) {
  HeadStore& heads = state_.heads;
  heads.SetMetric("entropy");
  const analysis::HeadId head{0, 1};
  EXPECT_FALSE(heads.ShowsEstimate(head)) << "there is nothing to show";
  analysis::HeadStatistics here, there;
  here.id = there.id = head;
  here.num_rows = 16;
  heads.Add(here);
  EXPECT_TRUE(heads.ShowsEstimate(head));
  here.num_rows = heads.trace().num_rows;
  heads.Add(here);
  EXPECT_FALSE(heads.ShowsEstimate(head));
  TraceSummary other = workbench_.Summary();
  other.num_rows = 64;
  heads.SetOther(other);
  heads.ShowDifferences(true);
  there.num_rows = 16;
  heads.AddOther(there);
  EXPECT_TRUE(heads.ShowsEstimate(head));
  heads.ShowDifferences(false);
  EXPECT_FALSE(heads.ShowsEstimate(head)) << "its own number alone";
  heads.ShowDifferences(true);
  there.num_rows = 64;
  heads.AddOther(there);
  EXPECT_FALSE(heads.ShowsEstimate(head));
}

TEST_F(WindowStateTest, TheExecutorFollowsEveryMaskAndAChangeCancelsIt) {
  MethodTrial& trial = state_.trial;
  state_.heads.Select({0, 1});
  EXPECT_EQ(workbench_.num_live_runs, 0) << "before its mask is there";
  workbench_.DeliverReplies(1);
  EXPECT_TRUE(trial.live_pending());
  EXPECT_FALSE(trial.live());
  workbench_.DeliverReplies(1);
  EXPECT_FALSE(trial.live_pending());
  ASSERT_TRUE(trial.live());
  EXPECT_EQ(trial.live()->attend_ms, static_cast<double>(trial.mask()->mask_id));
  // Two changes: the run behind the first mask is cancelled by the second change, and its answer is dropped.
  trial.SetValue("window", 32);
  workbench_.DeliverReplies(1);
  EXPECT_TRUE(trial.live_pending());
  const int64_t first = trial.mask()->mask_id;
  const int cancelled = workbench_.num_cancelled_live_runs;
  trial.SetValue("window", 16);
  EXPECT_FALSE(trial.live_pending());
  EXPECT_EQ(workbench_.num_cancelled_live_runs, cancelled + 1);
  Deliver();
  ASSERT_TRUE(trial.live());
  EXPECT_NE(trial.live()->attend_ms, static_cast<double>(first));
  EXPECT_EQ(trial.live()->attend_ms, static_cast<double>(trial.mask()->mask_id));
  // Of another head nothing stays.
  state_.heads.Select({0, 0});
  EXPECT_FALSE(trial.live());
}

TEST_F(WindowStateTest, ErrorsOfALiveRunAreThereBeforeItsTimes) {
  MethodTrial& trial = state_.trial;
  workbench_.tell_live_errors_first = true;
  state_.heads.Select({0, 1});
  workbench_.DeliverReplies(2);  // the mask, the errors
  ASSERT_TRUE(trial.live());
  EXPECT_FALSE(trial.live()->is_timed());
  EXPECT_TRUE(trial.is_live_present()) << "it is of the mask on show";
  EXPECT_TRUE(trial.live_pending()) << "its times are on their way";
  // They wait for what is measured; the errors are still of the mask on show.
  trial.SetMeasuring(true);
  EXPECT_TRUE(trial.live_waits());
  EXPECT_TRUE(trial.is_live_present());
  trial.SetMeasuring(false);
  EXPECT_TRUE(trial.live_pending());
  workbench_.DeliverReplies(1);
  EXPECT_TRUE(trial.is_live_present());
  // The next step of the slider drops them.
  trial.SetValue("window", 32);
  EXPECT_FALSE(trial.is_live_present());
  EXPECT_FALSE(trial.live_pending());
  EXPECT_TRUE(trial.live()) << "the last step's errors stay until the new ones are there";
  Deliver();
  EXPECT_TRUE(trial.live()->is_timed());
  EXPECT_EQ(trial.live()->attend_ms, static_cast<double>(trial.mask()->mask_id));
  EXPECT_TRUE(trial.is_live_present());
  EXPECT_FALSE(trial.live_pending());
}

TEST_F(WindowStateTest, TheExecutorDoesNotRunWhereNobodyWantsItAndSaysWhyItDidNot) {
  MethodTrial& trial = state_.trial;
  trial.SetLiveWanted(false);
  state_.heads.Select({0, 1});
  Deliver();
  EXPECT_EQ(workbench_.num_live_runs, 0);
  workbench_.fail_next_live_run = true;
  trial.SetLiveWanted(true);
  EXPECT_TRUE(trial.live_pending()) << "of the mask that is there";
  Deliver();
  EXPECT_FALSE(trial.live());
  EXPECT_EQ(trial.live_error(), "The kernel does not follow the sliders here.");
  trial.SetValue("window", 16);
  Deliver();
  EXPECT_TRUE(trial.live());
  EXPECT_EQ(trial.live_error(), "");
  trial.SetLiveWanted(false);
  EXPECT_FALSE(trial.live());
}

// "Open a head and choose a method" stood there while a long head's mask was on its way, and where it was refused.
TEST_F(WindowStateTest, WhereNoMaskIsItIsSaidWhy) {
  MethodTrial& trial = state_.trial;
  EXPECT_EQ(trial.WhyNoMask(), QStringLiteral("No mask: open a head and choose a method."));
  workbench_.fail_next_mask = true;
  state_.heads.Select({0, 1});
  EXPECT_EQ(trial.WhyNoMask(), QStringLiteral("The mask is being computed…"));
  Deliver();
  EXPECT_EQ(trial.WhyNoMask(), QStringLiteral("method band: no room: raise the window."));
  trial.SetValue("window", 16);
  Deliver();
  EXPECT_EQ(trial.WhyNoMask(), QString());
}

TEST_F(WindowStateTest, WhatIsMeasuredHasTheMachineToItselfAndTheLastLiveRunFollows) {
  MethodTrial& trial = state_.trial;
  MethodTrial& other = state_.references[0];
  other.SetWorkbench(&workbench_);
  other.SetHead(analysis::HeadId{0, 0});
  state_.heads.Select({0, 1});
  workbench_.DeliverReplies(2);  // both masks
  ASSERT_TRUE(trial.live_pending());
  ASSERT_TRUE(other.live_pending());
  const int begun = workbench_.num_live_runs;
  const auto all_wait = [&] { return !trial.live_pending() && !other.live_pending() && trial.live_waits(); };
  workbench_.hold_run = true;
  ASSERT_TRUE(trial.Run(1));
  EXPECT_TRUE(all_wait());
  EXPECT_TRUE(other.live_waits());
  trial.SetValue("window", 16);
  trial.SetValue("window", 8);
  Deliver();
  EXPECT_TRUE(trial.mask()) << "masks are made";
  EXPECT_TRUE(all_wait());
  EXPECT_EQ(workbench_.num_live_runs, begun);
  trial.CancelRun();
  EXPECT_TRUE(trial.live_pending());
  EXPECT_FALSE(trial.live_waits());
  EXPECT_EQ(workbench_.num_live_runs, begun + 2) << "one of each map";
  Deliver();
  ASSERT_TRUE(trial.live());
  EXPECT_EQ(trial.live()->attend_ms, static_cast<double>(trial.mask()->mask_id));
  // Every head, and every method.
  for (const bool sweep : {true, false}) {
    trial.SetValue("window", sweep ? 32 : 24);
    if (sweep) {
      state_.sweep.Start(HeadSweep::Kind::kMeasure);
    } else {
      state_.queue.RunAll();
    }
    ASSERT_EQ(workbench_.DeliverReplies(1), 1);
    EXPECT_FALSE(trial.mask_pending());
    EXPECT_FALSE(trial.live_pending()) << sweep;
    EXPECT_TRUE(trial.live_waits()) << sweep;
    sweep ? state_.sweep.Stop() : state_.queue.StopAll();
    EXPECT_TRUE(trial.live_pending()) << sweep;
    Deliver();
  }
  // Nothing waits that was done before.
  const int done = workbench_.num_live_runs;
  ASSERT_TRUE(trial.Run(1));
  EXPECT_FALSE(trial.live_waits());
  trial.CancelRun();
  EXPECT_EQ(workbench_.num_live_runs, done);
}

// The first head is run beside the statistics of all heads: "0.9×" stood there for good.
TEST_F(WindowStateTest, ALiveRunBesideOtherWorkIsDoneAgainWhenThatHasEnded) {
  MethodTrial& trial = state_.trial;
  trial.RunLiveAgain();
  EXPECT_EQ(workbench_.num_live_runs, 0) << "there is no run";
  state_.heads.Select({0, 1});
  workbench_.DeliverReplies(1);
  ASSERT_TRUE(trial.live_pending());
  const int forgotten = workbench_.num_forgotten_dense_times, cancelled = workbench_.num_cancelled_live_runs;
  trial.RunLiveAgain();
  EXPECT_EQ(workbench_.num_live_runs, 2) << "the first, which was under way, met the other work";
  EXPECT_EQ(workbench_.num_cancelled_live_runs, cancelled + 1);
  EXPECT_EQ(workbench_.num_forgotten_dense_times, forgotten + 1);
  Deliver();
  ASSERT_TRUE(trial.live());
  trial.RunLiveAgain();
  EXPECT_EQ(workbench_.num_live_runs, 3);
  EXPECT_EQ(workbench_.num_forgotten_dense_times, forgotten + 2) << "of dense attention, too";
  EXPECT_TRUE(trial.live_pending());
  EXPECT_TRUE(trial.live()) << "its numbers stay until the new ones are there";
  Deliver();
  EXPECT_FALSE(trial.live_pending());
  // A new mask is on its way: one run follows it, beside dense attention that is timed then.
  trial.SetValue("window", 24);
  ASSERT_TRUE(trial.mask_pending());
  trial.RunLiveAgain();
  EXPECT_EQ(workbench_.num_live_runs, 3);
  EXPECT_EQ(workbench_.num_forgotten_dense_times, forgotten + 3);
  Deliver();
  EXPECT_EQ(workbench_.num_live_runs, 4);
  trial.SetLiveWanted(false);
  trial.RunLiveAgain();
  EXPECT_EQ(workbench_.num_live_runs, 4);
}

TEST_F(WindowStateTest, WhatIsOfTheOpenTracesLengthIsNamed) {
  EXPECT_TRUE(state_.OfThisLength().isEmpty());
  state_.heads.Select({0, 1});
  Deliver();
  state_.notes.AddTag({0, 1}, QStringLiteral("notes stay"));
  EXPECT_TRUE(state_.OfThisLength().isEmpty());
  EXPECT_FALSE(state_.IsWorking());
  state_.sweep.Start(HeadSweep::Kind::kTune);
  EXPECT_TRUE(state_.IsWorking());
  Deliver();
  EXPECT_FALSE(state_.IsWorking());
  state_.configuration.Use(QStringLiteral("tuned"), {}, state_.sweep.TunedHeads());
  state_.quantise.Start();
  EXPECT_TRUE(state_.IsWorking());
  Deliver();
  analysis::MethodResult run;
  run.head = {0, 1};
  run.method = "band";
  state_.runs.Add(run);
  EXPECT_EQ(state_.OfThisLength(),
            (QStringList{QStringLiteral("1 run"), QStringLiteral("what was tuned on its heads"),
                         QStringLiteral("the configuration in use"), QStringLiteral("the quantised head")}));
  state_.sweep.Clear();
  state_.configuration.Leave();
  state_.runs.Clear();
  EXPECT_EQ(state_.OfThisLength(), QStringList{QStringLiteral("the quantised head")});
}

TEST_F(WindowStateTest, AGhostIsShownInPlaceOfThePanelsMaskAndForgottenBehindIt) {
  state_.heads.Select({0, 1});
  Deliver();
  MethodTrial& trial = state_.trial;
  const int64_t own = trial.mask()->mask_id;
  const MethodTrial::GhostMethod narrow{{0, 1}, "band", "window=16,sinks=1,share=0.5,exact=0"};
  trial.SetGhost(narrow);
  EXPECT_EQ(trial.shown_mask()->mask_id, own) << "until it is there";
  Deliver();
  ASSERT_TRUE(trial.ghost());
  const int64_t first = trial.ghost()->mask_id;
  EXPECT_EQ(trial.shown_mask()->mask_id, first);
  EXPECT_EQ(trial.mask()->mask_id, own);
  EXPECT_EQ(Window(), 64);
  trial.SetGhost(std::nullopt);
  EXPECT_EQ(trial.shown_mask()->mask_id, own);
  EXPECT_THAT(workbench_.forgotten_masks, ElementsAre(first));
  // A parameter that moves meanwhile comes first; the ghost follows.
  trial.SetGhost(narrow);
  trial.SetValue("window", 32);
  Deliver();
  EXPECT_EQ(trial.mask()->summary.parameters, "window=32,sinks=4,share=0.5,exact=0");
  ASSERT_TRUE(trial.ghost());
  EXPECT_EQ(trial.ghost()->summary.parameters, narrow.parameters);
  // Of another head, or with parameters that there are not, there is none.
  for (const MethodTrial::GhostMethod& wrong :
       {MethodTrial::GhostMethod{{0, 0}, "band", ""}, MethodTrial::GhostMethod{{0, 1}, "band", "window=-1"},
        MethodTrial::GhostMethod{{0, 1}, "no method", ""}}) {
    trial.SetGhost(wrong);
    Deliver();
    EXPECT_FALSE(trial.ghost());
  }
}

TEST_F(WindowStateTest, AParameterIsTakenBackAndAWrongOneIsRefused) {
  state_.parameters.Record(state_.PresentMethod());
  state_.SetMethod({QStringLiteral("band"), QStringLiteral("window=32"), 0.9});
  QCoreApplication::processEvents();
  EXPECT_EQ(Window(), 32);
  EXPECT_EQ(state_.trial.target(), 0.9);
  state_.parameters.stack()->undo();
  EXPECT_EQ(Window(), 64);
  EXPECT_EQ(state_.trial.target(), kDefaultMassTarget);
  state_.SetMethod({QStringLiteral("band"), QStringLiteral("window=many"), 0.9});
  EXPECT_EQ(failed_.size(), 1);
  EXPECT_EQ(Window(), 64);
  state_.SetMethod({QStringLiteral("no such method"), {}, 0.9});
  EXPECT_EQ(state_.PresentMethod().method, QStringLiteral("band"));
}

TEST_F(WindowStateTest, EveryMethodIsMeasuredOneAfterTheOther) {
  state_.queue.RunAll();
  EXPECT_EQ(workbench_.num_runs, 0) << "no head is open";
  state_.heads.Select({0, 1});
  state_.queue.RunAll();
  EXPECT_THAT(under_way_, ElementsAre(Work::kRunAll));
  EXPECT_EQ(workbench_.num_runs, 1) << "not side by side";
  Deliver();
  EXPECT_THAT(measured_, ElementsAre("band", "newest")) << "dense comes with each";
  EXPECT_TRUE(under_way_.empty());
  // Cancelled among them, the rest stays.
  state_.queue.RunAll();
  state_.queue.Cancel(Work::kRunAll);
  Deliver();
  EXPECT_EQ(measured_.size(), 2U);
  EXPECT_TRUE(under_way_.empty());
}

TEST_F(WindowStateTest, AFailedRunIsToldAndTheNextOneGoesOn) {
  state_.heads.Select({0, 1});
  workbench_.fail_next_run = true;
  state_.queue.RunAll();
  Deliver();
  EXPECT_THAT(measured_, ElementsAre("newest"));
  ASSERT_EQ(failed_.size(), 1);
  EXPECT_TRUE(failed_[0].contains(QStringLiteral("out of memory")));
}

TEST_F(WindowStateTest, AMethodThatTheHeadLacksSomethingForIsLeftOutAndNoFailure) {
  state_.heads.Select({0, 1});
  workbench_.unsupported = {"band"};
  state_.queue.RunAll();
  Deliver();
  EXPECT_THAT(measured_, ElementsAre("newest"));
  EXPECT_TRUE(failed_.isEmpty());
  ASSERT_EQ(noticed_.size(), 1);
  EXPECT_EQ(noticed_[0], QStringLiteral("Left out: band needs what was not recorded: record it."));
}

TEST_F(WindowStateTest, RunsAtTheTargetEndTheRunUnderWay) {
  state_.heads.Select({0, 1});
  state_.queue.RunAll();
  const int cancelled = workbench_.num_cancelled_runs;
  state_.queue.RunAllAtTarget();
  EXPECT_EQ(workbench_.num_cancelled_runs, cancelled + 1);
  EXPECT_THAT(under_way_, ElementsAre(Work::kSearch));
  workbench_.DeliverReplies();
  EXPECT_THAT(measured_, ElementsAre("band")) << "at the target, and once";
}

TEST_F(WindowStateTest, WhatIsSelectedAmongTheRunsIsCopied) {
  state_.heads.Select({0, 1});
  QObject::connect(&state_.queue, &RunQueue::Measured, &state_.runs, &RunsModel::Add);
  state_.queue.RunAll();
  Deliver();
  ASSERT_EQ(state_.runs.rowCount(), 3);
  EXPECT_EQ(state_.runs.AsText().count(u'\n'), 4) << "a title and every row";
  EXPECT_FALSE(state_.runs.SelectedRun());
  state_.runs.SetSelected({0, 2});
  ASSERT_TRUE(state_.runs.SelectedRun());
  EXPECT_EQ(state_.runs.SelectedRun()->method, state_.runs.runs()[2].method) << "the first row is dense";
  EXPECT_EQ(state_.runs.AsText().count(u'\n'), 3);
  state_.runs.sort(RunsModel::kMethod, Qt::AscendingOrder);
  EXPECT_FALSE(state_.runs.SelectedRun()) << "rows have other places now";
}

TEST_F(WindowStateTest, ARunOfTheTrialIsSeenFromItsBeginningToItsEnd) {
  state_.heads.Select({0, 1});
  ASSERT_TRUE(state_.trial.Run(3));
  EXPECT_THAT(under_way_, ElementsAre(Work::kRun));
  Deliver();
  EXPECT_TRUE(under_way_.empty());
  EXPECT_THAT(measured_, ElementsAre("band"));
  workbench_.hold_run = true;
  ASSERT_TRUE(state_.trial.Run(3));
  state_.trial.CancelRun();  // as the panel's button does
  EXPECT_TRUE(under_way_.empty());
  ASSERT_TRUE(state_.trial.Run(3));
  state_.queue.Cancel(Work::kRun);  // as the status bar's does
  EXPECT_FALSE(state_.trial.running());
  EXPECT_TRUE(under_way_.empty());
}

TEST_F(WindowStateTest, ASearchSetsTheParametersItFindsUnlessTheMethodChanged) {
  EXPECT_FALSE(state_.queue.CanSearch()) << "no head is open";
  state_.heads.Select({0, 1});
  ASSERT_TRUE(state_.queue.CanSearch());
  state_.trial.SetTarget(0.8);
  QCoreApplication::processEvents();
  state_.queue.MeetTarget();
  EXPECT_TRUE(state_.queue.searching());
  Deliver();
  EXPECT_EQ(workbench_.last_target, 0.8);
  EXPECT_EQ(Window(), testing::FakeWorkbench::kFoundWindow);
  EXPECT_FALSE(state_.queue.searching());

  state_.queue.MeetTarget();
  ASSERT_TRUE(state_.trial.SetValue("sinks", 5));
  QCoreApplication::processEvents();
  EXPECT_FALSE(state_.queue.searching()) << "it was for the parameters before";
  EXPECT_TRUE(under_way_.empty());
  workbench_.target_out_of_reach = true;
  state_.queue.MeetTarget();
  Deliver();
  EXPECT_EQ(failed_, QStringList{QStringLiteral("The target is out of reach: lower it.")});
  ASSERT_TRUE(state_.trial.SelectMethod("newest"));
  EXPECT_FALSE(state_.queue.CanSearch()) << "a decode method";
}

TEST_F(WindowStateTest, EveryMethodAtTheTargetIsSearchedThenMeasured) {
  state_.heads.Select({0, 1});
  state_.queue.RunAllAtTarget();
  EXPECT_THAT(under_way_, ElementsAre(Work::kSearch));
  Deliver();
  EXPECT_THAT(measured_, ElementsAre("band"));
  EXPECT_TRUE(workbench_.last_parameters.starts_with("window=77")) << workbench_.last_parameters;
  EXPECT_TRUE(under_way_.empty());
}

TEST_F(WindowStateTest, AMethodThatCannotReachTheTargetIsLeftOutAndNoFailure) {
  state_.heads.Select({0, 1});
  workbench_.target_out_of_reach = true;
  state_.queue.RunAllAtTarget();
  Deliver();
  EXPECT_TRUE(measured_.empty());
  EXPECT_TRUE(failed_.isEmpty());
  EXPECT_EQ(noticed_, QStringList{QStringLiteral("Left out: band: The target is out of reach: lower it.")});
  workbench_.target_out_of_reach = false;
  workbench_.fail_next_search = true;
  state_.queue.RunAllAtTarget();
  Deliver();
  EXPECT_EQ(failed_.size(), 1) << "a trace that cannot be read is another matter";
  EXPECT_EQ(noticed_.size(), 1) << "nothing of the series before is told again";
}

TEST_F(WindowStateTest, AMaskIsMadeWhileAnybodyShowsIt) {
  const int map = 0, pane = 0;
  state_.trial.SetMaskWanted(&map, true);
  state_.trial.SetMaskWanted(&pane, true);
  state_.heads.Select({0, 1});
  Deliver();
  EXPECT_EQ(workbench_.num_mask_requests, 1);
  state_.trial.SetMaskWanted(&map, false);
  ASSERT_TRUE(state_.trial.SetValue("window", 16));
  Deliver();
  EXPECT_EQ(workbench_.num_mask_requests, 2) << "the pane still shows its numbers";
  state_.trial.SetMaskWanted(&pane, false);
  ASSERT_TRUE(state_.trial.SetValue("window", 8));
  Deliver();
  EXPECT_EQ(workbench_.num_mask_requests, 2);
}

TEST_F(WindowStateTest, ARunsHeadMethodAndNumbersComeBack) {
  state_.heads.Select({0, 1});
  ASSERT_TRUE(state_.trial.SetValue("window", 16));
  ASSERT_TRUE(state_.trial.Run(1));
  Deliver();
  const analysis::MethodResult run = *state_.trial.result();
  state_.heads.Select({0, 0});
  ASSERT_TRUE(state_.trial.SelectMethod("newest"));
  state_.ShowRun(run);
  EXPECT_EQ(state_.heads.selected(), run.head);
  EXPECT_EQ(state_.trial.method()->name, "band");
  EXPECT_EQ(Window(), 16);
  ASSERT_TRUE(state_.trial.result());
  EXPECT_EQ(state_.trial.result()->parameters, run.parameters);
}

TEST_F(WindowStateTest, TheWorstQueryIsFoundForWhoeverListens) {
  state_.heads.Select({0, 1});
  Deliver();
  qint64 row = -1;
  double kept = 2;
  std::vector<LostKey> lost;
  QObject::connect(&state_.trial, &MethodTrial::WorstQueryFound,
                   [&](qint64 of, double mass, const std::vector<LostKey>& keys) {
                     row = of;
                     kept = mass;
                     lost = keys;
                   });
  state_.trial.FindWorstQuery();
  Deliver();
  EXPECT_EQ(row, state_.trial.mask()->distribution.worst_row);
  EXPECT_NEAR(kept, state_.trial.mask()->summary.cra_min, 1e-6);
  ASSERT_FALSE(lost.empty());
  EXPECT_GE(lost.front().probability, lost.back().probability);
}

TEST_F(WindowStateTest, AChoiceOfTheHeadAloneAsksForADecodeMethodsMaskAnew) {
  ASSERT_TRUE(state_.trial.SelectMethod("newest"));
  state_.heads.Select({0, 1});
  Deliver();
  const int before = workbench_.num_mask_requests;
  state_.trial.SetMeasuresAlone(true);
  EXPECT_TRUE(workbench_.measures_alone());
  EXPECT_EQ(workbench_.num_mask_requests, before + 1);
  ASSERT_TRUE(state_.trial.SelectMethod("band"));
  Deliver();
  const int of_band = workbench_.num_mask_requests;
  state_.trial.SetMeasuresAlone(false);
  EXPECT_EQ(workbench_.num_mask_requests, of_band) << "a prefill method chooses per query head either way";
}

}  // namespace
}  // namespace headscope::ui
