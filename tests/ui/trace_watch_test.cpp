// SPDX-License-Identifier: Apache-2.0
// What a trace that is still written looks like from outside: a file that grows.
#include "trace_watch.h"

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QFile>
#include <QTemporaryDir>

#include "fake_workbench.h"

namespace headscope::ui {
namespace {

class TraceWatchTest : public ::testing::Test {
 protected:
  TraceWatchTest() {
    Append(1000);
    QObject::connect(&watch_, &TraceWatch::Grown, [this] { ++grown_; });
    QObject::connect(&watch_, &TraceWatch::Renamed, [this](const QString& path) { renamed_.append(path); });
  }
  void Append(int bytes) { AppendTo(path_, bytes); }
  static void AppendTo(const QString& path, int bytes) {
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::Append));
    file.write(QByteArray(bytes, 'x'));
  }
  static TraceSummary Trace(const QString& path, bool complete) {
    TraceSummary trace;
    trace.path = path.toStdString();
    trace.complete = complete;
    return trace;
  }
  void Open(bool complete) {
    watch_.Opening({path_});
    watch_.Opened(Trace(path_, complete));
  }
  // Once, so much later than the look before.
  void Look(qint64 milliseconds = TraceWatch::kLookMs) {
    now_ms_ += milliseconds;
    watch_.Look(now_ms_);
  }
  // As often as the timer would.
  void LookFor(qint64 milliseconds) {
    for (const qint64 end = now_ms_ + milliseconds; now_ms_ < end;) Look();
  }

  int argc_ = 1;
  char name_[5] = "test";
  char* argv_[2] = {name_, nullptr};
  QCoreApplication application_{argc_, argv_};
  QTemporaryDir folder_;
  QString path_ = folder_.filePath(QStringLiteral("trace.partial.h5"));
  const QString target_ = folder_.filePath(QStringLiteral("trace.h5"));
  TraceWatch watch_;
  qint64 now_ms_ = 0;
  int grown_ = 0;
  QStringList renamed_;
};

TEST_F(TraceWatchTest, TellsOnceThatThereIsMuchMore) {
  Open(false);
  LookFor(3 * TraceWatch::kLeastRestMs);
  EXPECT_EQ(grown_, 0) << "nobody writes it";
  EXPECT_FALSE(watch_.is_written());
  Append(200);
  Look();
  EXPECT_EQ(grown_, 0) << "a fifth more";
  EXPECT_TRUE(watch_.is_written());
  Append(200);
  Look();
  EXPECT_EQ(grown_, 1);
  Append(5000);
  Look();
  EXPECT_EQ(grown_, 1) << "until it is opened anew";
  Open(false);
  Append(3000);
  Look();
  EXPECT_EQ(grown_, 2);
}

TEST_F(TraceWatchTest, TellsOfTheLastThatWasWrittenWhenTheWriterRestsForLong) {
  Open(false);
  Append(10);
  Look();
  EXPECT_TRUE(watch_.is_written());
  LookFor(TraceWatch::kLeastRestMs);
  EXPECT_FALSE(watch_.is_written());
  EXPECT_EQ(grown_, 0) << "a hundredth more";
  LookFor(TraceWatch::kLeastRestMs);
  EXPECT_EQ(grown_, 1);
}

TEST_F(TraceWatchTest, TimeThatIsPassedOverCountsForTheTimerToo) {
  Open(false);
  Append(10);
  watch_.PassTime(0);
  EXPECT_TRUE(watch_.is_written());
  watch_.PassTime(TraceWatch::kLeastRestMs);
  EXPECT_FALSE(watch_.is_written());
  EXPECT_EQ(grown_, 0);
  watch_.PassTime(TraceWatch::kLeastRestMs);
  EXPECT_EQ(grown_, 1);
  // The clock goes on from there.
  Append(10);
  watch_.PassTime(0);
  EXPECT_TRUE(watch_.is_written());
  watch_.PassTime(0);
  EXPECT_TRUE(watch_.is_written());
}

TEST_F(TraceWatchTest, AtRestATenthIsWorthIt) {
  Open(false);
  Append(100);
  Look();
  EXPECT_EQ(grown_, 0);
  LookFor(TraceWatch::kLeastRestMs);
  EXPECT_EQ(grown_, 1);
}

TEST_F(TraceWatchTest, ASlowPassIsNoRest) {
  Open(false);
  Look();
  for (int pass = 0; pass < 5; ++pass) {
    Append(20);
    Look(20000);
  }
  EXPECT_TRUE(watch_.is_written());
  // The next pass takes longer than any before it.
  LookFor(35000);
  EXPECT_TRUE(watch_.is_written());
  EXPECT_EQ(grown_, 0);
  LookFor(10000);
  EXPECT_FALSE(watch_.is_written());
  EXPECT_EQ(grown_, 1);
  // How long passes take is not forgotten when the trace is read again.
  Open(false);
  Append(20);
  Look();
  LookFor(35000);
  EXPECT_TRUE(watch_.is_written());
  EXPECT_EQ(grown_, 1);
}

TEST_F(TraceWatchTest, AKnownWriterNeverRests) {
  watch_.SetWriterKnown(true);
  Open(false);
  EXPECT_TRUE(watch_.is_written());
  Append(100);
  Look(TraceWatch::kMostRestMs * 3);
  EXPECT_TRUE(watch_.is_written());
  EXPECT_EQ(grown_, 0);
  // Nor does it vanish: by what name it goes on is said by whoever writes it.
  ASSERT_TRUE(QFile::rename(path_, target_));
  Look();
  EXPECT_FALSE(watch_.is_gone());
  EXPECT_TRUE(renamed_.isEmpty());
  ASSERT_TRUE(QFile::rename(target_, path_));
  watch_.SetWriterKnown(false);
  LookFor(TraceWatch::kLeastRestMs);
  EXPECT_FALSE(watch_.is_written());
}

TEST_F(TraceWatchTest, WhatRestsIsLookedAtLessOften) {
  Open(false);
  EXPECT_EQ(watch_.look_ms(), TraceWatch::kLookMs);
  LookFor(2 * TraceWatch::kLeastRestMs + TraceWatch::kLookMs);
  EXPECT_EQ(watch_.look_ms(), TraceWatch::kLookAtRestMs);
  Append(10);
  Look();
  EXPECT_EQ(watch_.look_ms(), TraceWatch::kLookMs);
  Open(true);
  EXPECT_EQ(watch_.look_ms(), 0);
}

TEST_F(TraceWatchTest, WhatIsWrittenWhileTheTraceIsReadIsNews) {
  watch_.Opening({path_});
  Append(1000);
  watch_.Opened(Trace(path_, false));
  EXPECT_TRUE(watch_.is_written());
  Look();
  EXPECT_EQ(grown_, 1);
}

TEST_F(TraceWatchTest, ATraceThatDoesNotOpenLeavesTheOneOnShowWatched) {
  Open(false);
  Append(10);
  Look();
  watch_.Opening({target_});
  EXPECT_TRUE(watch_.is_opening_another());
  EXPECT_TRUE(watch_.is_written()) << "the one on show still is";
  Append(2000);
  Look();
  EXPECT_EQ(grown_, 0) << "it may be gone in a moment";
  watch_.NotOpened();
  EXPECT_FALSE(watch_.is_opening());
  Look();
  EXPECT_EQ(grown_, 1);
  // It was about to be read again, and the other one came between.
  watch_.Opening({path_});
  EXPECT_TRUE(watch_.is_opening());
  EXPECT_FALSE(watch_.is_opening_another());
  watch_.Opening({target_});
  watch_.NotOpened();
  Look();
  EXPECT_EQ(grown_, 2);
  // What could not be read again is tried when there is more, and not at every look.
  watch_.Opening({path_});
  watch_.NotOpened();
  LookFor(3 * TraceWatch::kLeastRestMs);
  EXPECT_EQ(grown_, 2);
  Append(3000);
  Look();
  EXPECT_EQ(grown_, 3);
}

TEST_F(TraceWatchTest, ATraceThatIsRenamedToItsTargetIsFound) {
  AppendTo(target_, 30);  // what is overwritten
  Open(false);
  Append(10);
  Look();
  QFile::remove(target_);
  ASSERT_TRUE(QFile::rename(path_, target_));
  Look();
  EXPECT_EQ(renamed_, QStringList{target_});
  EXPECT_FALSE(watch_.is_gone());
  EXPECT_EQ(watch_.look_ms(), 0);
}

TEST_F(TraceWatchTest, ATraceThatIsGoneIsSaidToBeAndAnotherFileIsNotTakenForIt) {
  AppendTo(target_, 30);
  Open(false);
  Append(10);
  Look();
  QFile::remove(path_);
  LookFor(3 * TraceWatch::kLeastRestMs);
  EXPECT_TRUE(watch_.is_gone());
  EXPECT_TRUE(renamed_.isEmpty());
  EXPECT_EQ(grown_, 0);
  EXPECT_FALSE(watch_.is_written());
  Append(1000);
  Open(true);
  EXPECT_FALSE(watch_.is_gone());
  EXPECT_FALSE(watch_.is_written());
}

// A trace in several files, as a capture writes one in the place of another.
class WatchedFilesTest : public TraceWatchTest {
 protected:
  WatchedFilesTest() {
    for (const QString& file : files_) AppendTo(file, 1000);
  }
  void OpenFiles() {
    TraceSummary trace = Trace(files_.front(), false);
    for (const QString& file : files_) trace.files.push_back(file.toStdString());
    watch_.Opening(files_);
    watch_.Opened(trace);
  }
  QString Named(const char* name) const { return folder_.filePath(QString::fromLatin1(name)); }
  const QStringList files_ = {Named("t.partial-2-00001-of-00003.h5"), Named("t.partial-2-00002-of-00003.h5"),
                              Named("t.partial-2-00003-of-00003.h5")};
  const QStringList targets_ = {Named("t-00001-of-00003.h5"), Named("t-00002-of-00003.h5"),
                                Named("t-00003-of-00003.h5")};
};

TEST_F(WatchedFilesTest, AnyOfThemGrows) {
  OpenFiles();
  LookFor(3 * TraceWatch::kLeastRestMs);
  EXPECT_FALSE(watch_.is_written());
  AppendTo(files_[2], 500);
  Look();
  EXPECT_TRUE(watch_.is_written());
  EXPECT_EQ(grown_, 0) << "a sixth more of all";
  AppendTo(files_[1], 500);
  Look();
  EXPECT_EQ(grown_, 1);
}

TEST_F(WatchedFilesTest, WhatIsWrittenToAnyWhileTheTraceIsReadIsNews) {
  TraceSummary trace = Trace(files_.front(), false);
  for (const QString& file : files_) trace.files.push_back(file.toStdString());
  watch_.Opening(files_);
  AppendTo(files_[1], 1);
  watch_.Opened(trace);
  EXPECT_TRUE(watch_.is_written());
}

TEST_F(WatchedFilesTest, GetTheirNamesOneAfterTheOther) {
  OpenFiles();
  ASSERT_TRUE(QFile::rename(files_[0], targets_[0]));
  Look();
  EXPECT_FALSE(watch_.is_gone()) << "the others are about to follow";
  EXPECT_TRUE(renamed_.isEmpty());
  ASSERT_TRUE(QFile::rename(files_[1], targets_[1]));
  ASSERT_TRUE(QFile::rename(files_[2], targets_[2]));
  Look();
  EXPECT_FALSE(watch_.is_gone());
  EXPECT_EQ(renamed_, QStringList{targets_[0]});
}

TEST_F(WatchedFilesTest, WhereOneIsGoneTheTraceIs) {
  OpenFiles();
  QFile::remove(files_[1]);
  Look();
  EXPECT_TRUE(watch_.is_gone());
  EXPECT_EQ(watch_.look_ms(), 0);
  EXPECT_TRUE(renamed_.isEmpty());
}

TEST_F(WatchedFilesTest, HalfOfThemUnderTheNewNameForLongIsNoTrace) {
  OpenFiles();
  ASSERT_TRUE(QFile::rename(files_[0], targets_[0]));
  Look();
  Look();
  EXPECT_TRUE(watch_.is_gone());
  EXPECT_TRUE(renamed_.isEmpty());
}

TEST(HasGrownFrom, TheSamePromptWithMoreOfItAndNothingElse) {
  TraceSummary before = testing::FakeWorkbench(64).Summary();
  const TraceSummary more = testing::FakeWorkbench(96).Summary();
  before.token_text = {"a", "b"};
  before.row_positions = {0, 1};
  TraceSummary now = more;
  now.token_text = {"a", "b", "c"};
  now.row_positions = {0, 1, 2};
  EXPECT_TRUE(HasGrownFrom(before, now));
  EXPECT_TRUE(HasGrownFrom(before, before));
  EXPECT_FALSE(HasGrownFrom(now, before)) << "less of it";
  TraceSummary other = now;
  other.token_text[1] = "x";
  EXPECT_FALSE(HasGrownFrom(before, other));
  other = now;
  other.row_positions = {0, 2, 3};
  EXPECT_FALSE(HasGrownFrom(before, other));
  other = now;
  other.heads.pop_back();
  EXPECT_FALSE(HasGrownFrom(before, other));
  other = now;
  other.model_name = "another";
  EXPECT_FALSE(HasGrownFrom(before, other));
}

}  // namespace
}  // namespace headscope::ui
