// SPDX-License-Identifier: Apache-2.0
// What the session file keeps, which heads were visited, and undo of parameters.
#include <gtest/gtest.h>

#include <QJsonArray>
#include <QTemporaryDir>
#include <QUndoStack>
#include <chrono>
#include <set>
#include <thread>

#include "head_history.h"
#include "parameter_history.h"
#include "session.h"

namespace headscope::ui {
namespace {

using analysis::HeadId;

TEST(Session, ComesBackFromItsFile) {
  const QTemporaryDir folder;
  Session session;
  session.window_geometry = QByteArray("\x00\x01\xff", 3);
  session.last_trace = "/traces/a.h5";
  session.head = HeadId{4, 3};
  session.metric = "kurtosis";
  session.theme = "dark";
  session.canvas = {{"overlay", true}};
  session.AddRecent("/traces/b.h5");
  session.AddRecent("/traces/a.h5");
  const QString path = folder.filePath("deep/er/session.json");
  ASSERT_EQ(session.Save(path), QString());
  const Session back = Session::Load(path);
  EXPECT_EQ(back.ToJson(), session.ToJson());
  EXPECT_EQ(back.window_geometry, session.window_geometry);
  EXPECT_EQ(back.head, session.head);
  EXPECT_EQ(back.recent, QStringList({"/traces/a.h5", "/traces/b.h5"}));
}

TEST(Session, WhatIsMissingOrOfAWrongTypeKeepsItsDefault) {
  for (const char* text :
       {"", "{", "[]", "{\"head\": 4, \"theme\": \"pink\", \"recent\": \"a\", \"canvas\": 3}", "{\"head\": [1]}"}) {
    const QTemporaryDir folder;
    QFile file(folder.filePath("session.json"));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text);
    file.close();
    EXPECT_EQ(Session::Load(file.fileName()).ToJson(), Session().ToJson()) << text;
  }
}

TEST(Session, RecentTracesAreDistinctAndFew) {
  Session session;
  for (int i = 0; i < 30; ++i) session.AddRecent(QString::number(i % 15));
  EXPECT_EQ(session.recent.size(), Session::kMostRecent);
  EXPECT_EQ(session.recent.front(), "14");
  EXPECT_EQ(std::set<QString>(session.recent.begin(), session.recent.end()).size(), 10U);
}

TEST(ParameterHistory, OneDragIsOneStepAndEvenTheFirstChangeComesBack) {
  MethodState now{"band", "window=64"};
  ParameterHistory history([&](const MethodState& state) { now = state; });
  const auto change = [&](const MethodState& state) {
    now = state;
    history.Record(state);
  };
  history.Record(now);
  EXPECT_FALSE(history.stack()->canUndo());
  change({"band", "window=65"});
  change({"band", "window=66"});
  change({"band", "window=70"});
  EXPECT_EQ(history.stack()->count(), 1);
  change({"block", "k=3"});  // another method is another step, however soon
  EXPECT_EQ(history.stack()->count(), 2);
  history.stack()->undo();
  EXPECT_EQ(now, (MethodState{"band", "window=70"}));
  history.Record(now);  // the canvas reports what it was set to
  history.stack()->undo();
  EXPECT_EQ(now, (MethodState{"band", "window=64"}));
  history.Record(now);
  EXPECT_TRUE(history.stack()->canRedo());
  history.stack()->redo();
  EXPECT_EQ(now, (MethodState{"band", "window=70"}));
}

// A search takes its time, and what it finds belongs to what was asked for.
TEST(ParameterHistory, WhatContinuesAStepIsUndoneWithItHoweverLate) {
  MethodState now{"band", "window=64", 0.95};
  ParameterHistory history([&](const MethodState& state) { now = state; });
  history.Record(now);
  history.Record({"band", "window=64", 0.8});
  std::this_thread::sleep_for(std::chrono::milliseconds(ParameterHistory::kOneDragMs + 50));
  history.ContinueStep();
  history.Record({"band", "window=32", 0.8});
  EXPECT_EQ(history.stack()->count(), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(ParameterHistory::kOneDragMs + 50));
  history.Record({"band", "window=16", 0.8});
  EXPECT_EQ(history.stack()->count(), 2) << "once";
  history.stack()->undo();
  history.stack()->undo();
  EXPECT_EQ(now, (MethodState{"band", "window=64", 0.95}));
}

}  // namespace
}  // namespace headscope::ui
