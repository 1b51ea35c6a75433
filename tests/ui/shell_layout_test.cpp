// SPDX-License-Identifier: Apache-2.0
// Where the matrix' cells lie, what the session file keeps, which heads were visited, and undo of parameters.
#include <gtest/gtest.h>

#include <QJsonArray>
#include <QTemporaryDir>
#include <QUndoStack>
#include <set>

#include "head_history.h"
#include "matrix_layout.h"
#include "parameter_history.h"
#include "session.h"

namespace headscope::ui {
namespace {

using analysis::HeadId;

// Layers 2 and 5; heads 0, 1 (KV 0), 2 (KV 1) and 7 (KV 3); 5:1 was not recorded.
TraceSummary SomeTrace() {
  TraceSummary trace;
  trace.heads = {{2, 0}, {2, 1}, {2, 2}, {2, 7}, {5, 0}, {5, 2}, {5, 7}};
  trace.kv_head_of_head = {0, 0, 1, 3, 0, 1, 3};
  return trace;
}

TEST(MatrixLayout, EveryPointOfACellBelongsToItsHead) {
  const TraceSummary trace = SomeTrace();
  MatrixLayout layout(trace);
  ASSERT_EQ(layout.num_rows(), 2);
  ASSERT_EQ(layout.num_columns(), 4);
  for (const QRectF& area : {QRectF(10, 20, 300, 200), QRectF(0, 0, 40, 15), QRectF(-5, 3, 4000, 3000)}) {
    layout.Fit(area);
    for (const HeadId& head : trace.heads) {
      const auto cell = layout.CellOf(head);
      ASSERT_TRUE(cell);
      const QRectF rect = layout.CellRect(*cell);
      for (const QPointF point :
           {rect.center(), rect.topLeft() + QPointF(0.5, 0.5), rect.bottomRight() - QPointF(1, 1)}) {
        ASSERT_TRUE(layout.CellAt(point));
        EXPECT_EQ(layout.HeadOf(*layout.CellAt(point)), head);
      }
      EXPECT_GE(rect.width(), MatrixLayout::kLeast);
      EXPECT_LE(rect.width(), MatrixLayout::kMostWide);
      EXPECT_LE(rect.height(), MatrixLayout::kMostHigh);
      EXPECT_TRUE(layout.Bounds().contains(rect));
    }
  }
  layout.Fit({10, 20, 300, 200});
  EXPECT_LE(layout.Bounds().width(), 300);
  EXPECT_FALSE(layout.CellAt(layout.Bounds().topLeft() - QPointF(1, 1)));
  EXPECT_FALSE(layout.CellAt(layout.Bounds().bottomRight() + QPointF(1, 1)));
}

TEST(MatrixLayout, GroupsOfAKvHeadStandApart) {
  MatrixLayout layout(SomeTrace());
  layout.Fit({0, 0, 300, 100});
  ASSERT_EQ(layout.groups().size(), 3U);
  EXPECT_EQ(layout.groups()[0].kv_head, 0);
  EXPECT_EQ(layout.groups()[0].last, 1);
  EXPECT_EQ(layout.groups()[2].kv_head, 3);
  const auto gap = [&](int column) {
    return layout.CellRect({0, column + 1}).left() - layout.CellRect({0, column}).right();
  };
  EXPECT_DOUBLE_EQ(gap(0), MatrixLayout::kGap);
  EXPECT_DOUBLE_EQ(gap(1), MatrixLayout::kGap + MatrixLayout::kGroupGap);
  // A point in the gap belongs to no cell.
  EXPECT_FALSE(layout.CellAt({layout.CellRect({0, 1}).right() + 2.5, 5}));
}

TEST(MatrixLayout, HeadsThatWereNotRecordedHaveNoCell) {
  const MatrixLayout layout(SomeTrace());
  EXPECT_FALSE(layout.CellOf({5, 1}));
  EXPECT_FALSE(layout.CellOf({3, 0}));
  EXPECT_FALSE(layout.HeadOf({1, 1}));
  EXPECT_FALSE(layout.HeadOf({-1, 0}));
  EXPECT_FALSE(layout.HeadOf({0, 4}));
  const MatrixLayout empty;
  EXPECT_FALSE(empty.CellAt({0, 0}));
  EXPECT_TRUE(empty.Bounds().isEmpty());
}

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

}  // namespace
}  // namespace headscope::ui
