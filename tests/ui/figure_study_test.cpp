// SPDX-License-Identifier: Apache-2.0
// The figure that a person looks at, without a window: when it is made, what makes it anew, and what it waits for.
#include "figure_study.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "command_line.h"
#include "state_fixture.h"

namespace headscope::ui {
namespace {

class FigureStudyTest : public testing::StateTest {
 protected:
  FigureStudyTest() {
    state_.heads.Select({0, 1});
    study().SetPage({400, 200}, 2, false);
    study().SetWanted(true);
  }
  FigureStudy& study() { return state_.figures; }
  void Rest() { Wait(150); }
  void RestAndDeliver() {
    Rest();
    workbench_.DeliverReplies();
  }
};

TEST_F(FigureStudyTest, AChosenFigureIsMadeAndPaintedAgainAtAnotherSize) {
  EXPECT_EQ(study().WhyNot(), QStringLiteral("no figure is chosen"));
  RestAndDeliver();
  EXPECT_EQ(workbench_.num_figures, 0);
  study().Choose(QStringLiteral("one"));
  Rest();
  EXPECT_TRUE(study().working());
  EXPECT_EQ(study().share(), 0.5);
  workbench_.DeliverReplies();
  ASSERT_NE(study().picture(), nullptr);
  EXPECT_EQ(study().picture()->width, 800);
  EXPECT_FALSE(workbench_.last_figure.captions);
  for (int width = 401; width < 420; ++width) study().SetPage({width, 200}, 2, true);
  EXPECT_NE(study().picture(), nullptr) << "the one before is shown meanwhile";
  RestAndDeliver();
  EXPECT_EQ(workbench_.num_figures, 2) << "once the pane rests";
  EXPECT_EQ(study().picture()->width, 838);
  EXPECT_TRUE(workbench_.last_figure.dark);
  EXPECT_FALSE(study().Drawing().dark) << "a file is for paper";
}

TEST_F(FigureStudyTest, NothingIsMadeWhileNobodyLooks) {
  study().SetWanted(false);
  study().Choose(QStringLiteral("one"));
  RestAndDeliver();
  EXPECT_EQ(workbench_.num_figures, 0);
  study().SetWanted(true);
  RestAndDeliver();
  EXPECT_EQ(workbench_.num_figures, 1);
  EXPECT_NE(study().picture(), nullptr);
}

TEST_F(FigureStudyTest, TheHeadsAreAllTheShownOnesOrTheOpenOne) {
  study().Choose(QStringLiteral("one"));
  RestAndDeliver();
  EXPECT_TRUE(workbench_.last_figure.heads.empty()) << "all";
  study().SetHeads(FigureStudy::Heads::kOpen);
  RestAndDeliver();
  EXPECT_EQ(workbench_.last_figure.heads, (std::vector<analysis::HeadId>{{0, 1}}));
  state_.heads.Select({0, 0});
  EXPECT_EQ(study().picture(), nullptr) << "that was of another head";
  RestAndDeliver();
  EXPECT_EQ(workbench_.last_figure.heads, (std::vector<analysis::HeadId>{{0, 0}}));
  EXPECT_EQ(FigureCommand(QStringLiteral("t.h5"), study().Drawing()),
            QStringLiteral("headscope render t.h5 --figure one --heads 0:0 --max-rows 256 -o one.svg"));
}

TEST_F(FigureStudyTest, ClassesAreThoseThatAPersonHasSet) {
  study().Choose(QStringLiteral("classes"));
  RestAndDeliver();
  EXPECT_TRUE(workbench_.last_figure.class_thresholds.empty()) << "the defaults";
  std::vector<double> values = state_.classes.values();
  ASSERT_FALSE(values.empty());
  values.front() = 0.75;
  state_.classes.SetValues(values);
  EXPECT_EQ(study().picture(), nullptr) << "that was by other classes";
  RestAndDeliver();
  EXPECT_EQ(workbench_.last_figure.class_thresholds, values);
  const QString command = FigureCommand(QStringLiteral("t.h5"), study().Drawing(), state_.classes.defaults());
  EXPECT_TRUE(command.contains(
      QStringLiteral("--class-threshold %1=0.75").arg(QString::fromStdString(state_.classes.defaults().front().name))))
      << command.toStdString();
  state_.classes.Reset();
  RestAndDeliver();
  EXPECT_TRUE(workbench_.last_figure.class_thresholds.empty());
  const int made = workbench_.num_figures;
  study().Choose(QStringLiteral("one"));
  RestAndDeliver();
  state_.classes.SetValues(values);
  RestAndDeliver();
  EXPECT_EQ(workbench_.num_figures, made + 1) << "a figure without classes stays";
}

TEST_F(FigureStudyTest, AFigureOfRunsIsMadeAnewWhenOneIsMeasured) {
  study().Choose(QStringLiteral("runs"));
  RestAndDeliver();
  ASSERT_NE(workbench_.last_figure.runs, nullptr);
  EXPECT_TRUE(workbench_.last_figure.runs->empty());
  analysis::MethodResult run;
  run.head = {0, 1};
  run.method = "band";
  state_.runs.Add(run);
  RestAndDeliver();
  const auto& runs = *workbench_.last_figure.runs;  // the baseline's row among them
  EXPECT_TRUE(std::any_of(runs.begin(), runs.end(), [](const auto& one) { return one.method == "band"; }));
  EXPECT_TRUE(FigureCommand(QStringLiteral("t.h5"), study().Drawing(), {}, QStringLiteral("t-runs.csv"))
                  .contains(QStringLiteral("--runs t-runs.csv")));
}

TEST_F(FigureStudyTest, WhatIsMeasuredHasTheMachineToItself) {
  study().Choose(QStringLiteral("one"));
  Rest();
  ASSERT_TRUE(study().working());
  ASSERT_TRUE(state_.trial.Run(3));
  EXPECT_FALSE(study().working());
  EXPECT_TRUE(study().waits());
  Rest();
  EXPECT_EQ(workbench_.num_figures, 1) << "not beside the run";
  workbench_.DeliverReplies();  // of the run
  EXPECT_FALSE(study().waits());
  RestAndDeliver();
  EXPECT_EQ(workbench_.num_figures, 2);
  EXPECT_NE(study().picture(), nullptr);
}

TEST_F(FigureStudyTest, ACancelledFigureComesBackOnlyWhenItIsAskedFor) {
  study().Choose(QStringLiteral("one"));
  Rest();
  study().Cancel();
  EXPECT_TRUE(study().cancelled());
  RestAndDeliver();
  EXPECT_EQ(study().picture(), nullptr);
  study().SetPage({300, 200}, 2, false);
  RestAndDeliver();
  EXPECT_EQ(workbench_.num_figures, 1);
  study().Start();
  RestAndDeliver();
  EXPECT_NE(study().picture(), nullptr);
}

TEST_F(FigureStudyTest, AFailureIsSaidUntilAnotherFigureIsChosenAndPairsNeedASecondTrace) {
  workbench_.fail_next_figure = true;
  study().Choose(QStringLiteral("one"));
  RestAndDeliver();
  EXPECT_TRUE(study().error().contains(QStringLiteral("it is a test")));
  study().Choose(QStringLiteral("pair"));
  EXPECT_TRUE(study().error().isEmpty());
  EXPECT_TRUE(study().WhyNot().contains(QStringLiteral("compares traces")));
  RestAndDeliver();
  EXPECT_EQ(workbench_.num_figures, 1);
  TraceSummary other = workbench_.Summary();
  other.path = "other.h5";
  state_.heads.SetOther(other);
  RestAndDeliver();
  EXPECT_EQ(workbench_.last_figure.other_trace, "other.h5");
  EXPECT_NE(study().picture(), nullptr);
  state_.heads.SetOther(std::nullopt);
  EXPECT_EQ(study().picture(), nullptr);
}

TEST_F(FigureStudyTest, AFileIsOnWhitePaperWithItsCaptions) {
  study().SetPage({400, 200}, 2, true);
  study().Save(QStringLiteral("a.svg"));
  ASSERT_EQ(failed_.size(), 1);
  EXPECT_TRUE(failed_[0].contains(QStringLiteral("no figure is chosen")));
  study().Choose(QStringLiteral("one"));
  study().Save(QStringLiteral("a.svg"));
  workbench_.DeliverReplies();
  EXPECT_FALSE(workbench_.last_figure.dark);
  EXPECT_TRUE(workbench_.last_figure.captions);
  EXPECT_EQ(noticed_, QStringList(QStringLiteral("Figure saved to a.svg")));
  RestAndDeliver();
  EXPECT_NE(study().picture(), nullptr) << "the pane's own comes after it";
}

}  // namespace
}  // namespace headscope::ui
