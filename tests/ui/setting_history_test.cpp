// SPDX-License-Identifier: Apache-2.0
// Undo of settings, without a window: what differs makes a step, and what also changes by itself only when it is said.
#include "setting_history.h"

#include <gtest/gtest.h>

#include <QTest>

namespace headscope::ui {
namespace {

class SettingHistoryTest : public ::testing::Test {
 protected:
  void Set(const char* name, int value) {
    settings_[QLatin1String(name)] = value;
    history_.Record(settings_);
  }
  // The view's place, which Record does not see.
  void Zoom(int from, int to) {
    zoom_ = to;
    history_.RecordChange(QStringLiteral("zoom"), {{"zoom", from}}, {{"zoom", to}});
  }
  static void Pause() { QTest::qSleep(static_cast<int>(SettingHistory::kOneChangeMs) + 20); }

  QUndoStack stack_;
  QJsonObject settings_{{"scale", 0}};
  int zoom_ = 0;
  SettingHistory history_{&stack_, [this](const QJsonObject& members) {
                            for (auto member = members.begin(); member != members.end(); ++member) {
                              if (member.key() == u"zoom") {
                                zoom_ = member->toInt();
                              } else {
                                settings_[member.key()] = *member;
                              }
                            }
                            history_.Record(settings_);  // as a window does that is told of the change
                          }};
};

TEST_F(SettingHistoryTest, NothingIsAStepBeforeItBegins) {
  Set("scale", 1);
  Zoom(0, 1);
  EXPECT_FALSE(stack_.canUndo());
}

TEST_F(SettingHistoryTest, StepsOfBothKindsAreTakenBackInTheirOrder) {
  history_.Begin(settings_);
  Set("scale", 1);
  Zoom(0, 5);
  Set("scale", 2);
  EXPECT_EQ(stack_.count(), 3);
  stack_.undo();
  EXPECT_EQ(settings_[QStringLiteral("scale")].toInt(), 1);
  EXPECT_EQ(zoom_, 5);
  EXPECT_EQ(stack_.undoText(), QStringLiteral("zoom"));
  stack_.undo();
  EXPECT_EQ(zoom_, 0);
  stack_.undo();
  EXPECT_EQ(settings_[QStringLiteral("scale")].toInt(-1), 0);
  while (stack_.canRedo()) stack_.redo();
  EXPECT_EQ(zoom_, 5);
  EXPECT_EQ(settings_[QStringLiteral("scale")].toInt(), 2);
  EXPECT_EQ(stack_.count(), 3);
}

TEST_F(SettingHistoryTest, ChangesThatFollowEachOtherAreOneStepAndOneAfterAPauseIsAnother) {
  history_.Begin(settings_);
  for (int zoom = 0; zoom < 10; ++zoom) Zoom(zoom, zoom + 1);
  EXPECT_EQ(stack_.count(), 1);
  Pause();
  Zoom(10, 20);
  EXPECT_EQ(stack_.count(), 2);
  Zoom(20, 20);
  EXPECT_EQ(stack_.count(), 2) << "nothing changed";
  stack_.undo();
  EXPECT_EQ(zoom_, 10);
  stack_.undo();
  EXPECT_EQ(zoom_, 0);
}

// One whose end was as its beginning stood there, and to take it back did nothing.
TEST_F(SettingHistoryTest, AChangeThatIsSetBackAtOnceIsNoStep) {
  history_.Begin(settings_);
  Set("scale", 1);
  Pause();
  Set("scale", 2);
  Set("scale", 1);
  EXPECT_EQ(stack_.count(), 1);
  Set("scale", 3);
  EXPECT_EQ(stack_.count(), 2) << "the step below is older";
  stack_.undo();
  EXPECT_EQ(settings_[QStringLiteral("scale")].toInt(), 1);
}

// As a comparison that is ended as soon as it has begun.
TEST_F(SettingHistoryTest, WhatHasANameIsAStepOfItsOwnHoweverSoon) {
  history_.Begin(settings_);
  const auto step = [this](int from, int to) {
    settings_[QStringLiteral("scale")] = to;
    history_.RecordStep(QStringLiteral("step"), {{"scale", from}}, {{"scale", to}});
  };
  Set("scale", 1);
  step(1, 2);
  step(2, 1);
  Set("scale", 2);
  EXPECT_EQ(stack_.count(), 4);
  for (const int before : {1, 2, 1, 0}) {
    stack_.undo();
    EXPECT_EQ(settings_[QStringLiteral("scale")].toInt(-1), before);
  }
}

}  // namespace
}  // namespace headscope::ui
