// SPDX-License-Identifier: Apache-2.0
// Bookmarks, tags and the log, without a window: what is added, changed, taken back and kept.
#include "trace_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLocale>
#include <QTemporaryDir>
#include <memory>

#include "notice_log.h"
#include "state_file.h"
#include "state_fixture.h"
#include "trace_keeper.h"

namespace headscope::ui {
namespace {

using analysis::HeadId;

class TraceNotesTest : public testing::StateTest {
 protected:
  TraceNotesTest() {
    notes_.Open(workbench_.Summary(), {});
    QObject::connect(&notes_, &TraceNotes::Put,
                     [this](const QString& id, const QJsonObject& json) { kept_[id] = json; });
    QObject::connect(&notes_, &TraceNotes::Dropped, [this](const QString& id) { kept_.erase(id); });
  }
  QUndoStack* undo() { return state_.parameters.stack(); }

  TraceNotes& notes_ = state_.notes;
  QAbstractItemModelTester tester_{&state_.notes, QAbstractItemModelTester::FailureReportingMode::Fatal};
  std::map<QString, QJsonObject> kept_;  // as a keeper is told
};

TEST_F(TraceNotesTest, ABookmarkIsListedRenamedDeletedAndTakenBackStepByStep) {
  const QString id = notes_.AddPlace({0, 1}, 10, 20, 0, 5, QStringLiteral("sink"));
  ASSERT_EQ(notes_.rowCount(), 1);
  EXPECT_EQ(notes_.index(0, TraceNotes::kHead).data().toString(), QStringLiteral("0:1"));
  EXPECT_EQ(notes_.index(0, TraceNotes::kPlace).data().toString(), QStringLiteral("queries 10–19, keys 0–4"));
  EXPECT_EQ(kept_[id][QStringLiteral("text")], QStringLiteral("sink"));
  ASSERT_TRUE(notes_.setData(notes_.index(0, TraceNotes::kText), QStringLiteral("  first token ")));
  EXPECT_EQ(notes_.notes()[0].text, QStringLiteral("first token"));
  notes_.Remove({0});
  EXPECT_EQ(notes_.rowCount(), 0);
  EXPECT_TRUE(kept_.empty());
  undo()->undo();
  EXPECT_EQ(notes_.notes()[0].text, QStringLiteral("first token"));
  EXPECT_EQ(kept_[id][QStringLiteral("text")], QStringLiteral("first token"));
  undo()->undo();
  EXPECT_EQ(notes_.notes()[0].text, QStringLiteral("sink"));
  undo()->undo();
  EXPECT_EQ(notes_.rowCount(), 0);
  EXPECT_TRUE(kept_.empty());
  undo()->redo();
  EXPECT_EQ(notes_.notes()[0].id, id);
}

TEST_F(TraceNotesTest, SeveralAreDeletedAndComeBackInOneStep) {
  for (int i = 0; i < 4; ++i) notes_.AddPlace({0, 0}, i, i + 1, 0, 1, QString::number(i));
  const std::vector<TraceNote> before = notes_.notes();
  notes_.Remove({0, 2});
  ASSERT_EQ(notes_.rowCount(), 2);
  EXPECT_EQ(notes_.notes()[0].text, QStringLiteral("1"));
  undo()->undo();
  EXPECT_EQ(notes_.notes(), before) << "in their order";
}

TEST_F(TraceNotesTest, TagsAreOncePerHeadAndTheFilterFindsThem) {
  notes_.AddTag({0, 1}, QStringLiteral("to do"));
  notes_.AddTag({0, 1}, QStringLiteral("to do"));
  notes_.AddTag({0, 1}, QStringLiteral("   "));
  EXPECT_EQ(notes_.rowCount(), 1);
  EXPECT_EQ(state_.heads.TagsOf({0, 1}), QStringList(QStringLiteral("to do")));
  state_.heads.SetFilter(HeadFilter::Parse(QStringLiteral("#Do")));
  EXPECT_TRUE(state_.heads.Passes({0, 1}));
  EXPECT_FALSE(state_.heads.Passes({0, 0}));
  EXPECT_FALSE(notes_.setData(notes_.index(0, TraceNotes::kText), QString())) << "a tag without a text is none";
  undo()->undo();
  EXPECT_FALSE(state_.heads.Passes({0, 1}));
}

TEST_F(TraceNotesTest, ANoteOpensItsHeadAndItsPlace) {
  std::vector<qint64> place;
  QObject::connect(&state_, &WindowState::PlaceWanted, [&](qint64 a, qint64 b, qint64 c, qint64 d) {
    place = {a, b, c, d};
  });
  notes_.AddPlace({0, 1}, 10, 20, 0, 5, {});
  state_.GoToNote(notes_.notes()[0]);
  EXPECT_EQ(state_.heads.selected(), (HeadId{0, 1}));
  EXPECT_THAT(place, ::testing::ElementsAre(10, 20, 0, 5));
}

TEST_F(TraceNotesTest, WhatIsNoNoteOfThisTraceIsNotTaken) {
  TraceNote good;
  good.head = {0, 1};
  good.row_end = 128;
  good.column_end = 128;
  const TraceSummary trace = workbench_.Summary();
  const QString id = QStringLiteral("id");
  ASSERT_TRUE(TraceNote::FromJson(id, good.ToJson(), trace));
  const auto with = [&](const char* name, const QJsonValue& value) {
    QJsonObject json = good.ToJson();
    json[QLatin1String(name)] = value;
    return TraceNote::FromJson(id, json, trace);
  };
  EXPECT_FALSE(TraceNote::FromJson({}, good.ToJson(), trace));
  EXPECT_FALSE(with("kind", QStringLiteral("poem")));
  EXPECT_FALSE(with("kind", QStringLiteral("tag"))) << "it has no text";
  EXPECT_FALSE(with("head", QJsonArray{9, 9}));
  EXPECT_FALSE(with("head", 3));
  EXPECT_FALSE(with("rows", QJsonArray{0, 129}));
  EXPECT_FALSE(with("rows", QJsonArray{5, 5}));
  EXPECT_FALSE(with("keys", QJsonArray{-1, 5}));
  EXPECT_FALSE(with("keys", QJsonArray{0, 1e300}));
  EXPECT_EQ(with("text", QString(100000, u'x'))->text.size(), TraceNotes::kLongestText);
}

TEST_F(TraceNotesTest, TwoWindowsKeepTheirNotesInOneFile) {
  const QTemporaryDir folder;
  const QString trace = folder.filePath(QStringLiteral("t.h5"));
  StateWriter writer;
  TraceKeeper one(&writer, folder.path()), other(&writer, folder.path());
  one.Open(trace, QStringLiteral("contents"));
  other.Open(trace, QStringLiteral("contents"));
  one.KeepNote(QStringLiteral("a"), {{QStringLiteral("text"), QStringLiteral("first")}});
  ASSERT_TRUE(writer.Finish(20000));
  other.KeepNote(QStringLiteral("b"), {{QStringLiteral("text"), QStringLiteral("second")}});
  ASSERT_TRUE(writer.Finish(20000));
  one.KeepNote(QStringLiteral("a"), {{QStringLiteral("text"), QStringLiteral("changed")}});
  ASSERT_TRUE(writer.Finish(20000));
  const auto texts = [&](const char* contents) {
    QStringList found;
    for (const auto& [id, note] : TraceKeeper(&writer, folder.path()).Open(trace, QLatin1String(contents)).notes)
      found.append(id + u'=' + note[QStringLiteral("text")].toString());
    found.sort();
    return found;
  };
  EXPECT_EQ(texts("contents"), QStringList({QStringLiteral("a=changed"), QStringLiteral("b=second")}));
  EXPECT_TRUE(texts("another trace of that name").isEmpty());
  one.DropNote(QStringLiteral("a"));
  ASSERT_TRUE(writer.Finish(20000));
  EXPECT_EQ(texts("contents"), QStringList(QStringLiteral("b=second")));
  one.KeepNote(QStringLiteral("a"), {{QStringLiteral("text"), QStringLiteral("back")}});  // as undo does
  ASSERT_TRUE(writer.Finish(20000));
  EXPECT_EQ(texts("contents"), QStringList({QStringLiteral("a=back"), QStringLiteral("b=second")}));
}

// A window that was killed while a capture wrote, and started again when the trace was longer.
TEST_F(TraceNotesTest, NotesInTheFileAreFoundAgainAfterTheTraceHasGrown) {
  const QTemporaryDir folder;
  const QString trace = folder.filePath(QStringLiteral("t.h5"));
  const auto note = [](const char* text) { return QJsonObject{{QStringLiteral("text"), QLatin1String(text)}}; };
  const auto length = [](int64_t tokens, const char* of_other = "") {
    return TraceLength{.tokens = tokens, .contents_of_first = [=](int64_t first) {
                         return QStringLiteral("%1%2 tokens").arg(QLatin1String(of_other)).arg(first);
                       }};
  };
  StateWriter writer;
  {
    TraceKeeper keeper(&writer, folder.path());
    keeper.Open(trace, QStringLiteral("300 tokens"), {}, length(300));
    keeper.KeepRun({{QStringLiteral("method"), QStringLiteral("band")}});
    keeper.KeepNote(QStringLiteral("a"), note("first"));
    ASSERT_TRUE(writer.Finish(20000));
  }
  {
    TraceKeeper another(&writer, folder.path());
    EXPECT_TRUE(another.Open(trace, QStringLiteral("other 600 tokens"), {}, length(600, "other ")).notes.empty())
        << "of another prompt";
  }
  TraceKeeper keeper(&writer, folder.path());
  const TraceKeeper::Kept kept = keeper.Open(trace, QStringLiteral("600 tokens"), {}, length(600));
  ASSERT_EQ(kept.notes.size(), 1U);
  EXPECT_EQ(kept.notes[0].second, note("first"));
  EXPECT_TRUE(kept.runs.empty());
  EXPECT_EQ(kept.num_runs_of_less, 1);
  EXPECT_EQ(kept.tokens_of_less, 300);
  // From now on it is a note of the longer one, and there once.
  ASSERT_TRUE(writer.Finish(20000));
  keeper.DropNote(QStringLiteral("a"));
  ASSERT_TRUE(writer.Finish(20000));
  EXPECT_TRUE(
      TraceKeeper(&writer, folder.path()).Open(trace, QStringLiteral("600 tokens"), {}, length(600)).notes.empty());
}

// What draws a file's runs by itself cannot tell which of them are on show.
TEST_F(TraceNotesTest, AFileOfRunsIsNamedOnlyWhereAllOfThemAreOnShow) {
  const QTemporaryDir folder;
  const QString trace = folder.filePath(QStringLiteral("t.h5"));
  StateWriter writer;
  const auto run = [](const QString& path) {
    return QJsonObject{{QStringLiteral("method"), QStringLiteral("band")}, {QStringLiteral("trace"), path}};
  };
  TraceKeeper keeper(&writer, folder.path());
  keeper.Open(trace, QStringLiteral("contents"));
  EXPECT_EQ(keeper.FileOfRuns(), QString());
  keeper.KeepRun(run(trace));
  ASSERT_TRUE(writer.Finish(20000));
  EXPECT_EQ(keeper.FileOfRuns(), TraceKeeper::FileBeside(trace));
  TraceKeeper later(&writer, folder.path());
  later.Open(trace, QStringLiteral("another prompt"));
  EXPECT_EQ(later.FileOfRuns(), QString()) << "runs of other contents";
  later.KeepRun(run(trace));
  ASSERT_TRUE(writer.Finish(20000));
  EXPECT_EQ(later.FileOfRuns(), QString()) << "among others";
  const QString renamed = folder.filePath(QStringLiteral("u.h5"));
  ASSERT_TRUE(QFile::rename(TraceKeeper::FileBeside(trace), TraceKeeper::FileBeside(renamed)));
  TraceKeeper of_renamed(&writer, folder.path());
  EXPECT_EQ(of_renamed.Open(renamed, QStringLiteral("contents")).runs.size(), 1U);
  EXPECT_EQ(of_renamed.FileOfRuns(), QString()) << "whose runs name another trace";
}

// A trace of so many tokens, whose file is written by hand.
class GrownTraceTest : public TraceNotesTest {
 protected:
  static QJsonObject Entry(const QString& id, int64_t tokens, const char* kind) {
    return {{QStringLiteral("id"), id},
            {QStringLiteral("contents"), QStringLiteral("%1 tokens").arg(tokens)},
            {QStringLiteral("tokens"), static_cast<qint64>(tokens)},
            {QLatin1String(kind), QJsonObject{{QStringLiteral("text"), id}}}};
  }
  void Write(const QString& path, const QJsonArray& runs, const QJsonArray& notes = {},
             const QJsonArray& tunings = {}) {
    ASSERT_TRUE(QDir().mkpath(QFileInfo(path).path()));
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(QJsonDocument({{QStringLiteral("schema"), QStringLiteral("headscope-trace-state-1")},
                              {QStringLiteral("runs"), runs},
                              {QStringLiteral("notes"), notes},
                              {QStringLiteral("tunings"), tunings}})
                   .toJson());
  }
  TraceKeeper::Kept Open(int64_t tokens) {
    num_looked_up_ = 0;
    return keeper_.Open(trace_, QStringLiteral("%1 tokens").arg(tokens), {},
                        {.tokens = tokens, .contents_of_first = [this](int64_t first) {
                           ++num_looked_up_;
                           return QStringLiteral("%1 tokens").arg(first);
                         }});
  }

  const QTemporaryDir folder_;
  const QString trace_ = folder_.filePath(QStringLiteral("t.h5"));
  StateWriter writer_;
  TraceKeeper keeper_{&writer_, folder_.path()};
  int num_looked_up_ = 0;
};

TEST_F(GrownTraceTest, RunsOfSeveralLengthsAreCountedOnceWithTheLongest) {
  const QJsonObject shorter = Entry(QStringLiteral("a"), 200, "run"), longer = Entry(QStringLiteral("b"), 300, "run");
  // Where a trace's folder took no files for a time, both files have the run.
  ASSERT_NO_FATAL_FAILURE(Write(keeper_.FileInSettings(trace_), {longer}));
  ASSERT_NO_FATAL_FAILURE(Write(TraceKeeper::FileBeside(trace_), {shorter, longer}));
  const TraceKeeper::Kept kept = Open(600);
  EXPECT_TRUE(kept.runs.empty());
  EXPECT_EQ(kept.num_runs_of_less, 2);
  EXPECT_EQ(kept.tokens_of_less, 300);
  EXPECT_EQ(kept.num_lengths_left_out, 0);
  EXPECT_THAT(kept.WhatIsNotShown().toStdString(), ::testing::HasSubstr(": 2 runs of at most its first 300 tokens "));
  EXPECT_THAT(Open(300).WhatIsNotShown().toStdString(), ::testing::HasSubstr(": 1 run of its first 200 tokens "));
  EXPECT_EQ(Open(200).WhatIsNotShown(), QString());
}

// They were in the file, unmentioned, and a tuning that had taken hours seemed lost.
TEST_F(GrownTraceTest, TuningsOfItsFirstTokensAreMentioned) {
  const QJsonObject one = Entry(QStringLiteral("a"), 200, "tuning"), other = Entry(QStringLiteral("b"), 300, "tuning");
  ASSERT_NO_FATAL_FAILURE(Write(TraceKeeper::FileBeside(trace_), {}, {}, {one, other}));
  EXPECT_EQ(Open(600).WhatIsNotShown(),
            QStringLiteral("The trace has grown since it was tuned: 2 tunings of at most its first 300 tokens stay in "
                           "its file and are not offered."));
  const TraceKeeper::Kept kept = Open(300);
  ASSERT_EQ(kept.tunings.size(), 1U);
  EXPECT_EQ(kept.tunings[0].first, QStringLiteral("b"));
  EXPECT_EQ(kept.WhatIsNotShown(),
            QStringLiteral("The trace has grown since it was tuned: a tuning of its first 200 tokens stays in its "
                           "file and is not offered."));
  EXPECT_EQ(Open(200).WhatIsNotShown(), QString());
}

// A colleague's file in a folder that takes no changes: what was discarded came back with every opening.
TEST_F(GrownTraceTest, WhatIsDroppedStaysGoneWhereTheFileCannotBeChanged) {
  // No file system takes the name of its lock.
  const QString trace = folder_.filePath(QString(235, u't') + QStringLiteral(".h5"));
  const QString beside = TraceKeeper::FileBeside(trace);
  const QJsonObject run = Entry(QStringLiteral("a"), 200, "run"), note = Entry(QStringLiteral("b"), 200, "note");
  const QJsonObject gone = Entry(QStringLiteral("c"), 200, "tuning"), stays = Entry(QStringLiteral("d"), 200, "tuning");
  ASSERT_NO_FATAL_FAILURE(Write(beside, {run}, {note}, {gone, stays}));
  const QJsonObject before = ReadStateFile(beside, 1 << 20);
  const auto open = [&] { return keeper_.Open(trace, QStringLiteral("200 tokens")); };
  ASSERT_EQ(open().tunings.size(), 2U);
  keeper_.DropRuns();
  keeper_.DropNote(QStringLiteral("b"));
  keeper_.DropTuning(QStringLiteral("c"));
  ASSERT_TRUE(writer_.Finish(20000));
  ASSERT_EQ(ReadStateFile(beside, 1 << 20), before) << "it took the change: this test tests nothing";
  const TraceKeeper::Kept kept = open();
  EXPECT_TRUE(kept.runs.empty());
  EXPECT_TRUE(kept.notes.empty());
  ASSERT_EQ(kept.tunings.size(), 1U);
  EXPECT_EQ(kept.tunings[0].first, QStringLiteral("d"));
  EXPECT_FALSE(keeper_.FindTuning(QStringLiteral("c"))) << "for another window that has offered it";
  EXPECT_TRUE(keeper_.FindTuning(QStringLiteral("d")));
  // Undo of a deleted note.
  keeper_.KeepNote(QStringLiteral("b"), {{QStringLiteral("text"), QStringLiteral("again")}});
  ASSERT_TRUE(writer_.Finish(20000));
  const TraceKeeper::Kept again = open();
  ASSERT_EQ(again.notes.size(), 1U);
  EXPECT_EQ(again.notes[0].second[QStringLiteral("text")].toString(), QStringLiteral("again"));
  EXPECT_TRUE(again.runs.empty());
}

// And is there again when it is put back where changes are taken.
TEST_F(GrownTraceTest, WhatWasGoneComesBackWithAFileThatTakesChanges) {
  const QJsonObject note = Entry(QStringLiteral("b"), 200, "note");
  QJsonObject elsewhere{{QStringLiteral("schema"), QStringLiteral("headscope-trace-state-1")},
                        {QStringLiteral("gone"), QJsonArray{QStringLiteral("b")}}};
  ASSERT_NO_FATAL_FAILURE(Write(TraceKeeper::FileBeside(trace_), {}, {note}));
  ASSERT_EQ(
      UpdateStateFile(keeper_.FileInSettings(trace_), 1 << 20, false, [&](const QJsonObject&) { return elsewhere; }),
      QString());
  ASSERT_TRUE(Open(200).notes.empty());
  keeper_.KeepNote(QStringLiteral("b"), {{QStringLiteral("text"), QStringLiteral("again")}});
  ASSERT_TRUE(writer_.Finish(20000));
  EXPECT_EQ(Open(200).notes.size(), 1U);
}

// The file in the settings folder, once it is there with these members, cannot be changed: its own path is as long as
// any system takes one, and that of its lock longer.
class FullSettingsTest : public GrownTraceTest {
 protected:
  void SetUp() override {
    constexpr qsizetype kLongestPath = 4095,
                        kOfFile = 44;  // "/traces/", 32 digits and ".json", less than ".lock" short
    QString folder = folder_.path();
    while (folder.size() < kLongestPath - kOfFile - 202) folder += u'/' + QString(200, u'd');
    folder += u'/' + QString(kLongestPath - kOfFile - 3 - folder.size(), u'e');
    full_ = std::make_unique<TraceKeeper>(&writer_, folder);
    QObject::connect(full_.get(), &TraceKeeper::Failed, [this](const QString& sentence) { failed_ << sentence; });
    QObject::connect(full_.get(), &TraceKeeper::Hidden, [this](const QString& sentence) { hidden_ << sentence; });
  }
  void PutInSettings(QJsonObject members) {
    members[QStringLiteral("schema")] = QStringLiteral("headscope-trace-state-1");
    const QString path = full_->FileInSettings(trace_);
    ASSERT_TRUE(QDir().mkpath(QFileInfo(path).path()));
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(QJsonDocument(members).toJson());
    file.close();
    ASSERT_NE(UpdateStateFile(path, 1 << 20, false, [](const QJsonObject&) { return QJsonObject(); }), QString())
        << "it takes changes: these tests test nothing";
  }

  std::unique_ptr<TraceKeeper> full_;
  QStringList failed_, hidden_;
};

// Each was said to be lost, and closing the window asked about runs that lay beside the trace.
TEST_F(FullSettingsTest, WhatTheFileBesideTheTraceHasTakenIsKept) {
  ASSERT_NO_FATAL_FAILURE(PutInSettings({{QStringLiteral("view"), QJsonObject{{QStringLiteral("head"), 1}}}}));
  full_->Open(trace_, QStringLiteral("200 tokens"));
  full_->KeepRun({{QStringLiteral("method"), QStringLiteral("band")}});
  full_->KeepNote(QStringLiteral("a"), {{QStringLiteral("text"), QStringLiteral("first")}});
  ASSERT_TRUE(writer_.Finish(20000));
  EXPECT_EQ(failed_.join(u' '), QString());
  EXPECT_EQ(hidden_.join(u' '), QString());
  EXPECT_EQ(full_->num_unkept(), 0);
  EXPECT_EQ(Open(200).runs.size(), 1U);
}

TEST_F(FullSettingsTest, WhatItHidesOfThatIsToldOnceAndWhatIsDroppedFails) {
  const QJsonObject note = Entry(QStringLiteral("c"), 200, "note");
  ASSERT_NO_FATAL_FAILURE(PutInSettings(
      {{QStringLiteral("gone"), QJsonArray{QStringLiteral("b")}}, {QStringLiteral("notes"), QJsonArray{note}}}));
  ASSERT_EQ(full_->Open(trace_, QStringLiteral("200 tokens")).notes.size(), 1U);
  full_->KeepNote(QStringLiteral("b"), {{QStringLiteral("text"), QStringLiteral("again")}});
  full_->KeepNote(QStringLiteral("c"), {{QStringLiteral("text"), QStringLiteral("changed")}});
  full_->KeepRun({{QStringLiteral("method"), QStringLiteral("band")}});
  ASSERT_TRUE(writer_.Finish(20000));
  EXPECT_EQ(failed_.join(u' '), QString());
  EXPECT_EQ(full_->num_unkept(), 0);
  ASSERT_EQ(hidden_.size(), 1);
  EXPECT_TRUE(hidden_.front().startsWith(full_->FileInSettings(trace_))) << hidden_.front().toStdString();
  full_->DropNote(QStringLiteral("c"));
  ASSERT_TRUE(writer_.Finish(20000));
  EXPECT_EQ(failed_.size(), 1) << "it comes back";
}

// Notes, runs and tunings were not there, and nobody said why.
TEST_F(GrownTraceTest, AFileThatCannotBeReadIsNamedOnOpening) {
  const QString beside = TraceKeeper::FileBeside(trace_);
  const auto put = [](const QString& path, const QByteArray& text) {
    ASSERT_TRUE(QDir().mkpath(QFileInfo(path).path()));
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly) && file.write(text) == text.size());
  };
  EXPECT_EQ(Open(200).error, QString());
  const QByteArray merged = R"({"schema": "headscope-trace-state-1", "notes": [], "runs": [], "notes": []})";
  ASSERT_NO_FATAL_FAILURE(put(beside, merged));
  const QString why = beside + QStringLiteral(
                                   " was not read: one of its objects has the name \"notes\" twice; remove "
                                   "one of the two.");
  EXPECT_EQ(Open(200).error, why);
  QStringList elsewhere;
  QObject::connect(&keeper_, &TraceKeeper::RunsKeptElsewhere,
                   [&](const QString& path, const QString& reason) { elsewhere << path << reason; });
  keeper_.KeepNote(QStringLiteral("a"), {{QStringLiteral("text"), QStringLiteral("first")}});
  ASSERT_TRUE(writer_.Finish(20000));
  EXPECT_EQ(elsewhere, QStringList({keeper_.FileInSettings(trace_), why}));
  ASSERT_NO_FATAL_FAILURE(put(keeper_.FileInSettings(trace_), "no JSON"));
  EXPECT_EQ(Open(200).error,
            keeper_.FileInSettings(trace_) + QStringLiteral(" was not read: it is not a JSON object. ") + why);
}

// It was shown as it had been when the trace's folder took no changes.
TEST_F(GrownTraceTest, ANoteChangedBesideTheTraceIsShownAsItIsNow) {
  ASSERT_NO_FATAL_FAILURE(Write(keeper_.FileInSettings(trace_), {}, {Entry(QStringLiteral("a"), 200, "note")}));
  ASSERT_EQ(Open(200).notes.size(), 1U);
  keeper_.KeepNote(QStringLiteral("a"), {{QStringLiteral("text"), QStringLiteral("changed")}});
  ASSERT_TRUE(writer_.Finish(20000));
  const TraceKeeper::Kept kept = Open(200);
  ASSERT_EQ(kept.notes.size(), 1U);
  EXPECT_EQ(kept.notes[0].second[QStringLiteral("text")].toString(), QStringLiteral("changed"));
}

TEST(KeptOfLess, CountsAreGroupedInOneWay) {
  const QLocale before;
  QLocale::setDefault(QLocale(QLocale::German));
  TraceKeeper::Kept kept;
  kept.num_runs_of_less = 1234;
  kept.tokens_of_less = 16384;
  kept.num_lengths_left_out = 2345;
  const std::string several = kept.WhatIsNotShown().toStdString();
  kept.num_runs_of_less = 1;
  const std::string one = kept.WhatIsNotShown().toStdString();
  QLocale::setDefault(before);
  EXPECT_THAT(several, ::testing::HasSubstr(": 1,234 runs of at most its first 16,384 tokens "));
  EXPECT_THAT(several, ::testing::HasSubstr("from 2,345 other lengths"));
  EXPECT_THAT(one, ::testing::HasSubstr(": 1 run of its first 16,384 tokens "));
}

TEST_F(GrownTraceTest, RunsOfManyLengthsLeaveRoomForTheNotes) {
  QJsonArray runs;
  for (int64_t tokens = 101; tokens <= 140; ++tokens) runs.append(Entry(QString::number(tokens), tokens, "run"));
  ASSERT_NO_FATAL_FAILURE(Write(keeper_.FileInSettings(trace_), runs));
  ASSERT_NO_FATAL_FAILURE(Write(TraceKeeper::FileBeside(trace_), {}, {Entry(QStringLiteral("note"), 50, "note")}));
  const TraceKeeper::Kept kept = Open(600);
  ASSERT_EQ(kept.notes.size(), 1U);
  EXPECT_EQ(kept.notes[0].first, QStringLiteral("note"));
  EXPECT_EQ(num_looked_up_, 32) << "each takes a pass over the tokens";
  EXPECT_EQ(kept.num_runs_of_less, 31) << "the note's length has been looked up first";
  EXPECT_EQ(kept.tokens_of_less, 140);
  EXPECT_EQ(kept.num_lengths_left_out, 9);
  EXPECT_THAT(kept.WhatIsNotShown().toStdString(),
              ::testing::HasSubstr("Notes, runs and tunings from 9 other lengths of this trace are kept in its file "
                                   "but not shown (limit: 32 lengths)."));
}

TEST_F(TraceNotesTest, NotesAreCarriedToWhatATraceHasGrownTo) {
  const QTemporaryDir folder;
  const QString trace = folder.filePath(QStringLiteral("t.h5"));
  const auto note = [](const char* text) { return QJsonObject{{QStringLiteral("text"), QLatin1String(text)}}; };
  StateWriter writer;
  TraceKeeper keeper(&writer, folder.path());
  keeper.Open(trace, QStringLiteral("300 tokens"));
  keeper.KeepRun({{QStringLiteral("method"), QStringLiteral("band")}});
  keeper.KeepNote(QStringLiteral("a"), note("first"));
  // At once, before any of it is written.
  const TraceKeeper::Kept kept =
      keeper.Open(trace, QStringLiteral("600 tokens"), {{QStringLiteral("a"), note("first")}});
  ASSERT_EQ(kept.notes.size(), 1U);
  EXPECT_EQ(kept.notes[0].first, QStringLiteral("a"));
  EXPECT_TRUE(kept.runs.empty()) << "of 300 tokens";
  ASSERT_TRUE(writer.Finish(20000));
  const auto open = [&](const char* contents) {
    return TraceKeeper(&writer, folder.path()).Open(trace, QLatin1String(contents));
  };
  ASSERT_EQ(open("600 tokens").notes.size(), 1U);
  EXPECT_EQ(open("600 tokens").notes[0].second, note("first"));
  EXPECT_EQ(open("300 tokens").runs.size(), 1U) << "it was still written";
  // What is known of the new contents already is not taken back to what it was.
  keeper.KeepNote(QStringLiteral("a"), note("changed"));
  ASSERT_TRUE(writer.Finish(20000));
  const TraceKeeper::Kept again =
      keeper.Open(trace, QStringLiteral("600 tokens"), {{QStringLiteral("a"), note("first")}});
  ASSERT_EQ(again.notes.size(), 1U);
  EXPECT_EQ(again.notes[0].second, note("changed"));
}

TEST(NoticeLogTest, KeepsTheNewestWithTheirTimeAndShowsNoControlCharacters) {
  NoticeLog log;
  const QAbstractItemModelTester tester(&log, QAbstractItemModelTester::FailureReportingMode::Fatal);
  for (size_t i = 0; i < NoticeLog::kMost + 3; ++i) log.Add(NoticeLog::Kind::kNews, QString::number(i));
  log.Add(NoticeLog::Kind::kError, QStringLiteral("bad\x1b[31m"));
  ASSERT_EQ(log.rowCount(), static_cast<int>(NoticeLog::kMost));
  EXPECT_EQ(log.index(0, NoticeLog::kText).data().toString(), QStringLiteral("4"));
  const int last = log.rowCount() - 1;
  EXPECT_FALSE(log.index(last, NoticeLog::kText).data().toString().contains(u'\x1b'));
  const QString text = log.AsText({last});
  EXPECT_EQ(text.count(u'\n'), 1);
  EXPECT_TRUE(text.contains(QStringLiteral("  error  bad"))) << text.toStdString();
  EXPECT_EQ(log.AsText({}).count(u'\n'), log.rowCount()) << "nothing chosen: all";
  log.Clear();
  EXPECT_EQ(log.rowCount(), 0);
}

}  // namespace
}  // namespace headscope::ui
