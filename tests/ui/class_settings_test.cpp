// SPDX-License-Identifier: Apache-2.0
// Thresholds of the classes and alarms: heads are classed anew at once, and what is kept of them comes back, as far as
// it makes sense.
#include "class_settings.h"

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QJsonArray>
#include <cmath>
#include <limits>

#include "command_line.h"
#include "fake_workbench.h"
#include "stopped_statistics.h"

namespace headscope::ui {
namespace {

using analysis::HeadClass;
using analysis::HeadId;

class ClassSettingsTest : public ::testing::Test {
 protected:
  ClassSettingsTest() {
    heads_.SetTrace(workbench_.Summary());
    analysis::HeadStatistics head;
    head.id = heads_.trace().heads.front();
    head.sink_mass = 0.6;
    head.head_class = HeadClass::kSinkLocal;
    heads_.Add(head);
    QObject::connect(&settings_, &ClassSettings::Changed, [this] { ++num_changes_; });
  }
  HeadClass ClassOfFirst() const { return heads_.Find(heads_.trace().heads.front())->head_class; }

  testing::FakeWorkbench workbench_{256};
  HeadStore heads_;
  ClassSettings settings_{&workbench_, &heads_};
  int num_changes_ = 0;
};

TEST_F(ClassSettingsTest, AThresholdClassesTheHeadsAnewAtOnce) {
  settings_.SetValues({0.7, 0.25});
  EXPECT_EQ(ClassOfFirst(), HeadClass::kDiffuse);
  EXPECT_EQ(num_changes_, 1);
  settings_.SetValues({0.7, 0.25});
  EXPECT_EQ(num_changes_, 1) << "nothing has changed";
  settings_.Reset();
  EXPECT_EQ(ClassOfFirst(), HeadClass::kSinkLocal);
  EXPECT_TRUE(settings_.IsDefault());
}

TEST_F(ClassSettingsTest, TheAlarmColoursTheMatrix) {
  ASSERT_FALSE(settings_.alarms().empty());
  const analysis::MetricInfo metric = settings_.alarms().front().metric;
  EXPECT_EQ(metric.name, "largest_logit");
  EXPECT_EQ(settings_.alarms().front().value, 100);
  heads_.SetMetric(metric.name);
  EXPECT_NE(heads_.Scale().Color(50), analysis::kAlarmColor);
  settings_.SetAlarm(0, 40);
  EXPECT_EQ(heads_.Scale().Color(50), analysis::kAlarmColor);
  settings_.SetAlarm(0, std::numeric_limits<double>::infinity());
  EXPECT_NE(heads_.Scale().Color(1e5), analysis::kAlarmColor);
}

TEST_F(ClassSettingsTest, WhatIsKeptComesBackAndNonsenseDoesNot) {
  settings_.SetValues({0.7, 0.25});
  settings_.SetAlarm(0, std::numeric_limits<double>::infinity());
  const QJsonObject kept = settings_.ToJson();
  settings_.Reset();
  settings_.FromJson(kept);
  EXPECT_EQ(settings_.values().front(), 0.7);
  EXPECT_TRUE(std::isinf(settings_.alarms().front().value));
  settings_.FromJson({{QStringLiteral("thresholds"), QJsonObject{{QStringLiteral("near_mass"), QStringLiteral("much")},
                                                                 {QStringLiteral("far_mass"), 7}}},
                      {QStringLiteral("alarms"), QJsonArray{1}}});
  EXPECT_EQ(settings_.values(), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(settings_.alarms().front().value, 100);
}

TEST_F(ClassSettingsTest, TheCommandLineNamesWhatIsChanged) {
  const QString trace = QStringLiteral("a.h5");
  EXPECT_EQ(AnalyzeCommand(trace, settings_).toStdString(), "headscope analyze a.h5");
  settings_.SetValues({0.7, 0.25});
  settings_.SetAlarm(0, 40);
  EXPECT_EQ(AnalyzeCommand(trace, settings_).toStdString(),
            "headscope analyze a.h5 --class-threshold near_mass=0.7 --alarm largest_logit=40");
}

// Of few rows there are no quick estimates, so nobody may be told that heads keep them.
TEST_F(ClassSettingsTest, StoppedStatisticsAreTheQuickOnesOrNone) {
  TraceSummary trace = heads_.trace();
  ASSERT_GE(trace.heads.size(), 2u);
  trace.heads.resize(2);
  heads_.SetTrace(trace);
  heads_.SetOther(trace);
  const auto other = [&] { return OtherStatisticsStoppedText(heads_, QStringLiteral("b.h5")).toStdString(); };
  const auto told = [&] { return StatisticsStoppedText(heads_).toStdString(); };
  EXPECT_EQ(told(), "Statistics stopped. The remaining heads have none yet.");
  EXPECT_EQ(other(), "Statistics of b.h5 stopped. The remaining heads are not compared yet.");
  const auto know = [&](size_t head, int64_t rows) {
    analysis::HeadStatistics statistics;
    statistics.id = trace.heads[head];
    statistics.num_rows = rows;
    heads_.Add(statistics);
    heads_.AddOther(statistics);
  };
  know(0, trace.num_rows - 1);
  EXPECT_EQ(told(), "Statistics stopped. The remaining heads keep their quick estimates, or have none yet.");
  EXPECT_EQ(other(),
            "Statistics of b.h5 stopped. The remaining heads are compared by quick estimates, or not at all yet.");
  know(1, trace.num_rows);
  EXPECT_EQ(told(), "Statistics stopped. The remaining heads keep their quick estimates.");
  EXPECT_EQ(other(), "Statistics of b.h5 stopped. The remaining heads are compared by quick estimates.");
  know(0, trace.num_rows);
  EXPECT_EQ(told(), "Statistics stopped.");
  EXPECT_EQ(other(), "Statistics of b.h5 stopped.");
}

}  // namespace
}  // namespace headscope::ui
