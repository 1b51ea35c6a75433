// SPDX-License-Identifier: Apache-2.0
// What a trace that is still written looks like from outside: a file that grows.
#include "trace_watch.h"

#include <gtest/gtest.h>

#include <QFile>
#include <QTemporaryDir>

namespace headscope::ui {
namespace {

class TraceWatchTest : public ::testing::Test {
 protected:
  TraceWatchTest() {
    Append(1000);
    QObject::connect(&watch_, &TraceWatch::Grown, [this] { ++grown_; });
    QObject::connect(&watch_, &TraceWatch::WrittenChanged, [this] { written_ += watch_.is_written() ? "+" : "-"; });
  }
  void Append(int bytes) {
    QFile file(path_);
    ASSERT_TRUE(file.open(QIODevice::Append));
    file.write(QByteArray(bytes, 'x'));
  }
  void Open(bool complete) {
    TraceSummary trace;
    trace.path = path_.toStdString();
    trace.complete = complete;
    watch_.Opening(path_);
    watch_.Opened(trace);
  }
  void Look(int times) {
    for (int i = 0; i < times; ++i) watch_.Look();
  }

  QTemporaryDir folder_;
  QString path_ = folder_.filePath(QStringLiteral("trace.h5"));
  TraceWatch watch_;
  int grown_ = 0;
  std::string written_;
};

TEST_F(TraceWatchTest, TellsOnceThatThereIsMuchMore) {
  Open(false);
  Look(TraceWatch::kRestLooks + 3);
  EXPECT_EQ(grown_, 0) << "nobody writes it";
  Append(200);
  Look(1);
  EXPECT_EQ(grown_, 0) << "a fifth more";
  EXPECT_EQ(written_, "+");
  Append(200);
  Look(1);
  EXPECT_EQ(grown_, 1);
  Append(5000);
  Look(1);
  EXPECT_EQ(grown_, 1) << "until it is opened anew";
  Open(false);
  Append(3000);
  Look(1);
  EXPECT_EQ(grown_, 2);
}

TEST_F(TraceWatchTest, TellsOfTheLastThatWasWrittenWhenTheWriterRests) {
  Open(false);
  Append(10);
  Look(1);
  EXPECT_TRUE(watch_.is_written());
  Look(TraceWatch::kRestLooks - 1);
  EXPECT_EQ(grown_, 0);
  Look(1);
  EXPECT_EQ(grown_, 1);
  EXPECT_EQ(written_, "+-");
}

TEST_F(TraceWatchTest, WhatIsWrittenWhileTheTraceIsReadIsNews) {
  TraceSummary trace;
  trace.path = path_.toStdString();
  trace.complete = false;
  watch_.Opening(path_);
  Append(1000);
  watch_.Opened(trace);
  EXPECT_TRUE(watch_.is_written());
  Look(1);
  EXPECT_EQ(grown_, 1);
}

TEST_F(TraceWatchTest, ATraceThatIsCompleteOrGoneIsLeftAlone) {
  Open(false);
  Append(10);
  Look(1);
  QFile::remove(path_);
  Look(TraceWatch::kRestLooks + 1);
  EXPECT_EQ(grown_, 0);
  EXPECT_FALSE(watch_.is_written());
  Append(1000);
  Open(true);
  EXPECT_FALSE(watch_.is_written());
}

}  // namespace
}  // namespace headscope::ui
