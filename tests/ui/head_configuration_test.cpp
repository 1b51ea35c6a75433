// SPDX-License-Identifier: Apache-2.0
// Heads with a method of their own, methods that are made of files, and tunings by ranges of lengths, without a window.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "command_line.h"
#include "state_fixture.h"

namespace headscope::ui {
namespace {

using analysis::HeadId;
using ::testing::ElementsAre;

class HeadConfigurationTest : public testing::StateTest {
 protected:
  HeadConfigurationTest() {
    QObject::connect(&state_.configuration, &HeadConfiguration::Changed, [this] { ++num_changed_; });
  }
  // The method "band" with that window.
  TuneSettings::Method Band(int32_t window) const {
    const kernels::MethodSpec& band = *state_.FindMethod(QStringLiteral("band"));
    kernels::ParameterValues values(band);
    EXPECT_EQ(values.Set(band, "window", window), "");
    return {"band", values};
  }
  int num_changed_ = 0;
};

TEST_F(HeadConfigurationTest, TheHeadOnShowHasItsOwnMethod) {
  state_.heads.Select({0, 0});
  workbench_.configuration = {{{0, 0}, Band(10)}, {{0, 1}, Band(20)}};
  state_.configuration.Open(QStringLiteral("/folder/tuned.json"));
  EXPECT_FALSE(state_.configuration.in_use()) << "the file is read in the background";
  Deliver();
  EXPECT_EQ(num_changed_, 1);
  EXPECT_EQ(Window(), 10);
  state_.heads.Select({0, 1});
  EXPECT_EQ(Window(), 20);
  EXPECT_EQ(state_.configuration.Summary(), QStringLiteral("tuned.json: 2 heads, 2 with band"));
  state_.configuration.Leave();
  state_.heads.Select({0, 0});
  EXPECT_EQ(Window(), 20) << "the panel's method stays from head to head";
  EXPECT_EQ(num_changed_, 2);
}

TEST_F(HeadConfigurationTest, AHeadWithoutASettingKeepsThePanels) {
  state_.heads.Select({0, 0});
  workbench_.configuration = {{{0, 1}, Band(20)}};
  state_.configuration.Open(QStringLiteral("some.json"));
  const int64_t before = Window();
  Deliver();
  EXPECT_EQ(Window(), before);
  ASSERT_EQ(state_.configuration.ShownHeads().size(), 1U);
  EXPECT_EQ(state_.configuration.ShownHeads().front().head, (HeadId{0, 1}));
}

TEST_F(HeadConfigurationTest, AllHeadsAreMeasuredEachWithItsOwn) {
  workbench_.configuration = {{{0, 0}, Band(10)}, {{0, 1}, Band(20)}};
  state_.configuration.Open(QStringLiteral("tuned.json"));
  Deliver();
  std::vector<HeadId> measured;
  QObject::connect(&state_.sweep, &HeadSweep::Measured,
                   [&](const analysis::MethodResult& run) { measured.push_back(run.head); });
  state_.sweep.Measure(state_.configuration.ShownHeads(), state_.configuration.title());
  workbench_.DeliverReplies(1);
  EXPECT_EQ(workbench_.last_settings, workbench_.configuration);
  state_.sweep.Stop();
  ASSERT_TRUE(state_.sweep.CanResume());
  state_.sweep.Resume();
  EXPECT_THAT(workbench_.last_settings, ElementsAre(HeadSetting{{0, 1}, Band(20)})) << "what is done is not done again";
  Deliver();
  EXPECT_THAT(measured, ElementsAre(HeadId{0, 0}, HeadId{0, 1}));
  EXPECT_TRUE(state_.sweep.Summary().startsWith(QStringLiteral("tuned.json measured on 2 heads")))
      << state_.sweep.Summary().toStdString();
  state_.sweep.Start(HeadSweep::Kind::kMeasure);
  Deliver();
  EXPECT_EQ(workbench_.last_settings.size(), 1U) << "the panel's method is measured on all of them again";
}

TEST_F(HeadConfigurationTest, WhatWasTunedIsAConfiguration) {
  state_.sweep.Start(HeadSweep::Kind::kTune);
  Deliver();
  state_.configuration.Use(QStringLiteral("what was tuned"), {}, state_.sweep.TunedHeads());
  state_.heads.Select({0, 1});
  EXPECT_EQ(Window(), testing::FakeWorkbench::kFoundWindow + 1);
}

TEST_F(HeadConfigurationTest, AnotherTraceLeavesIt) {
  workbench_.configuration = {{{0, 0}, Band(10)}};
  state_.configuration.Open(QStringLiteral("tuned.json"));
  state_.heads.SetTrace(workbench_.Summary());
  Deliver();
  EXPECT_FALSE(state_.configuration.in_use()) << "it was read for the heads of the trace before";
  state_.configuration.Open(QStringLiteral("missing"));
  Deliver();
  EXPECT_THAT(failed_, ElementsAre(QStringLiteral("missing: it is not there; choose another file.")));
}

TEST_F(HeadConfigurationTest, ItsCommandNamesTheHeadsThatAreShown) {
  const std::vector<HeadSetting> settings = {{{0, 0}, Band(10)}, {{0, 1}, Band(20)}};
  EXPECT_EQ(ConfigurationCommand(QStringLiteral("t.h5"), QStringLiteral("my config.json"), settings, 2),
            QStringLiteral("headscope compare t.h5 --config 'my config.json'"));
  EXPECT_EQ(ConfigurationCommand(QStringLiteral("t.h5"), QStringLiteral("c.json"), settings, 3),
            QStringLiteral("headscope compare t.h5 --config c.json --heads 0:0,0:1"));
}

TEST_F(HeadConfigurationTest, AMethodOfAFileJoinsTheList) {
  state_.heads.Select({0, 0});
  const size_t before = state_.trial.methods().size();
  const std::string present = state_.trial.method()->name;
  QString read;
  state_.ReadMethodFile(QStringLiteral("mask-file"), QStringLiteral("/a/mask.h5"),
                        [&](const QString& name) { read = name; });
  Deliver();
  EXPECT_EQ(read, QStringLiteral("mask-file[/a/mask.h5]"));
  ASSERT_EQ(state_.trial.methods().size(), before + 1);
  EXPECT_EQ(state_.trial.method()->name, present) << "the list grew before or behind it";
  EXPECT_EQ(state_.references.front().methods().size(),
            state_.references.front().method() == nullptr ? 0U : before + 1);
  EXPECT_TRUE(state_.trial.SelectMethod(read.toStdString()));
  state_.ReadMethodFile(QStringLiteral("mask-file"), QStringLiteral("missing"), [](const QString&) { ADD_FAILURE(); });
  state_.ReadMethodFile(QStringLiteral("no-kind"), QStringLiteral("/a/mask.h5"), [](const QString&) { ADD_FAILURE(); });
  Deliver();
  EXPECT_EQ(failed_.size(), 1);
}

// A session, a bookmark or a step that is undone may name one that this window has not read.
TEST_F(HeadConfigurationTest, AMethodOfAFileIsReadAgainWhenItIsNamed) {
  const QString name = QStringLiteral("mask-file[/a/mask.h5]");
  state_.SetMethod({name, QStringLiteral("window=12"), 0.9});
  Deliver();
  ASSERT_NE(state_.trial.method(), nullptr);
  EXPECT_EQ(QString::fromStdString(state_.trial.method()->name), name);
  EXPECT_EQ(Window(), 12);
}

// Reading it takes its time, and a person may have chosen another one by then.
TEST_F(HeadConfigurationTest, AMethodOfAFileThatIsReadTooLateStaysInTheListAlone) {
  const QString name = QStringLiteral("mask-file[/a/mask.h5]");
  const size_t before = state_.trial.methods().size();
  const std::string present = state_.trial.method()->name;
  state_.SetMethod({name, QStringLiteral("window=12"), 0.9});
  state_.trial.SetValue("window", 20);
  Deliver();
  EXPECT_EQ(state_.trial.method()->name, present);
  EXPECT_EQ(Window(), 20);
  EXPECT_EQ(state_.trial.methods().size(), before + 1);
  // Of two the newer one is taken, and of one that was left nothing is said.
  state_.SetMethod({QStringLiteral("mask-file[missing]"), {}, 0.9});
  state_.SetMethod({QStringLiteral("mask-file[/b/mask.h5]"), {}, 0.9});
  Deliver();
  EXPECT_EQ(state_.trial.method()->name, "mask-file[/b/mask.h5]");
  EXPECT_TRUE(failed_.isEmpty()) << failed_.join(u' ').toStdString();
}

TEST_F(HeadConfigurationTest, EveryRangeOfLengthsHasSettings) {
  TuneSettings settings = state_.sweep.TrialsTuning();
  settings.traces = {"long one.h5"};
  settings.ranges = {"100"};
  EXPECT_EQ(TuneCommand(QStringLiteral("t.h5"), state_.trial.methods(), settings),
            QStringLiteral("headscope tune t.h5 'long one.h5' --method band:sinks=4,share=0.5,exact=0 --target "
                           "cra-p5=0.95 --ranges 100"));
  state_.sweep.Tune(settings);
  Deliver();
  EXPECT_EQ(workbench_.last_tuning, settings);
  const std::vector<TunedSetting> tuned = state_.sweep.Tuned();
  ASSERT_EQ(tuned.size(), 4U);
  EXPECT_EQ(tuned[0].head, tuned[1].head);
  EXPECT_EQ(tuned[0].lengths.below_tokens, tuned[1].lengths.from_tokens) << "in the order of their lengths";
  EXPECT_EQ(state_.sweep.num_done(), 2U) << "a head is done once";
  EXPECT_EQ(state_.sweep.TunedHeads().size(), 2U) << "of the open trace's length";
  EXPECT_TRUE(state_.sweep.Summary().contains(QStringLiteral("one of 2 that were tuned")))
      << state_.sweep.Summary().toStdString();
}

}  // namespace
}  // namespace headscope::ui
