// SPDX-License-Identifier: Apache-2.0
// What a tuning has found outlives its window: every number of it, on this trace alone, until somebody saves it.
#include "kept_tuning.h"

#include <gtest/gtest.h>

#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QTemporaryDir>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "state_file.h"
#include "state_fixture.h"
#include "support/attempts.h"
#include "tuning_keeper.h"

namespace headscope::ui {
namespace {

using analysis::HeadId;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool IsSame(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool IsSame(const analysis::SettingQuality& a, const analysis::SettingQuality& b) {
  return a.reached == b.reached && a.kept_fraction == b.kept_fraction && a.mass == b.mass &&
         IsSame(a.relative_error, b.relative_error) && IsSame(a.time_share, b.time_share) &&
         IsSame(a.work_share, b.work_share);
}

bool IsSame(const TunedSetting& a, const TunedSetting& b) {
  const auto same_point = [](const TunedSetting::Point& one, const TunedSetting::Point& other) {
    return one.values == other.values && one.mass_mean == other.mass_mean;
  };
  return IsSame(static_cast<const analysis::SettingQuality&>(a), static_cast<const analysis::SettingQuality&>(b)) &&
         a.head == b.head && a.lengths == b.lengths && a.is_open_traces == b.is_open_traces && a.method == b.method &&
         a.values == b.values && a.device == b.device && a.outside_mass == b.outside_mass &&
         a.checked.has_value() == b.checked.has_value() && (!a.checked || IsSame(*a.checked, *b.checked)) &&
         std::ranges::equal(a.trade_off, b.trade_off, same_point) && a.passed_over == b.passed_over && a.note == b.note;
}

bool IsSame(const std::vector<TunedSetting>& a, const std::vector<TunedSetting>& b) {
  return std::ranges::equal(a, b,
                            [](const TunedSetting& one, const TunedSetting& other) { return IsSame(one, other); });
}

class KeptTuningTest : public testing::StateTest {
 protected:
  KeptTuningTest() { Show(&state_, &workbench_); }

  void Show(WindowState* state, const testing::FakeWorkbench* workbench) const {
    TraceSummary summary = workbench->Summary();
    summary.path = trace_.toStdString();
    state->heads.SetTrace(std::move(summary));
  }

  // With a value in every place, and none that is there by itself.
  KeptTuning OddTuning() const {
    KeptTuning tuning;
    TuneSettings& settings = tuning.settings;
    settings = state_.sweep.TrialsTuning();
    settings.methods.push_back(settings.methods.front());
    const kernels::MethodSpec& band = *state_.FindMethod(QStringLiteral("band"));
    EXPECT_EQ(settings.methods[1].values.Set(band, "share", 0.1 + 0.2), "");
    settings.target = {"cra", 1.0 / 3};
    settings.unit = TuneSettings::Unit::kLayer;
    settings.checks = {"/traces/a b.h5", "/traces/\xc3\xa4.h5"};
    settings.traces = {"c.h5"};
    settings.ranges = {"100"};
    settings.check_rows = "every:4";
    settings.choose = TuneSettings::Choice::kError;
    settings.from_budgets = true;
    settings.decode_rows = 11;
    settings.in_group = true;
    tuning.chosen = {{0, 0}, {0, 1}};

    TunedSetting found;
    found.reached = true;
    found.kept_fraction = 0.1 + 0.2;
    found.mass.bins[0] = 1;
    found.mass.bins[99] = int64_t{1} << 60;
    found.mass.num_rows = (int64_t{1} << 53) + 1;
    found.mass.minimum = 5e-324;
    found.mass.mean = 0.7000000000000001;
    found.mass.fifth_percentile = 1 - 1e-16;
    found.mass.first_percentile = 1e-300;
    found.mass.first_quartile = 1.0 / 7;
    found.mass.median = std::nextafter(0.5, 1.0);
    found.mass.worst_row = 77;
    found.relative_error = kInfinity;
    found.time_share = kNaN;
    found.work_share = 1.0 + 1e-15;
    found.head = {0, 1};
    found.lengths = {0, 100};
    found.is_open_traces = false;
    found.method = 1;
    found.values = settings.methods[1].values;
    found.device = {CudaDevice(3), "NVIDIA \"H\" \n 200"};
    found.outside_mass = 0.3;
    found.checked.emplace();
    found.checked->kept_fraction = 2.0 / 3;
    found.checked->relative_error = -kInfinity;
    found.checked->mass.worst_row = 5;
    found.trade_off = {{settings.methods[0].values, 0.2}, {settings.methods[1].values, 1.0 / 9}};
    found.passed_over = {"TidalDecode: layer 3 reuses", ""};
    found.note = "a note, \xe2\x80\x9cquoted\xe2\x80\x9d";
    tuning.found.push_back(found);
    found.lengths = {100, TunedSetting::Lengths::kNoEnd};
    found.is_open_traces = true;
    found.checked.reset();
    found.trade_off.clear();
    tuning.found.push_back(found);
    tuning.failed = {{{0, 0}, "The device ran out of memory: choose fewer rows."}};
    return tuning;
  }

  QJsonObject AsJson(const KeptTuning& tuning) const {
    QJsonArray found;
    for (const TunedSetting& one : tuning.found)
      found.append(FoundAsJson(one, tuning.settings, state_.trial.methods()));
    return TuningAsJson(tuning.settings, state_.trial.methods(), tuning.chosen, found, tuning.failed);
  }
  std::optional<KeptTuning> Read(const QJsonObject& json) {
    why_.clear();
    return KeptTuning::FromJson(json, state_.heads.trace(), state_.trial.methods(), workbench_, &why_);
  }

  const QTemporaryDir folder_;
  const QString trace_ = folder_.filePath(QStringLiteral("t.h5"));
  QString why_;
};

TEST_F(KeptTuningTest, EveryNumberComesBackFromTheFile) {
  const KeptTuning tuning = OddTuning();
  const QByteArray text = QJsonDocument(AsJson(tuning)).toJson();
  const auto back = Read(QJsonDocument::fromJson(text).object());
  ASSERT_TRUE(back) << why_.toStdString();
  EXPECT_EQ(back->settings, tuning.settings);
  EXPECT_EQ(back->chosen, tuning.chosen);
  EXPECT_TRUE(IsSame(back->found, tuning.found));
  ASSERT_EQ(back->failed.size(), 1U);
  EXPECT_EQ(back->failed[0].head, (HeadId{0, 0}));
  EXPECT_EQ(back->failed[0].sentence, tuning.failed[0].sentence);
  EXPECT_EQ(QJsonDocument(AsJson(*back)).toJson(), text);
  EXPECT_EQ(back->NumTuned(), 1U);
}

TEST_F(KeptTuningTest, WhatCouldNotHaveBeenTunedHereIsPassedOver) {
  const KeptTuning tuning = OddTuning();
  const auto refuses = [&](const char* what, const std::function<void(KeptTuning*)>& change) {
    KeptTuning changed = tuning;
    change(&changed);
    EXPECT_FALSE(Read(AsJson(changed))) << what;
    EXPECT_FALSE(why_.isEmpty()) << what;
  };
  ASSERT_TRUE(Read(AsJson(tuning))) << why_.toStdString();
  refuses("a head of another trace", [](KeptTuning* of) { of->chosen.push_back({7, 7}); });
  refuses("heads out of order", [](KeptTuning* of) { std::swap(of->chosen[0], of->chosen[1]); });
  refuses("no head", [](KeptTuning* of) { of->chosen.clear(); });
  refuses("found for a head that was not chosen", [](KeptTuning* of) { of->chosen = {{0, 0}}; });
  refuses("found twice", [](KeptTuning* of) { of->found.push_back(of->found.back()); });
  refuses("found and failed", [](KeptTuning* of) { of->failed[0].head = {0, 1}; });
  refuses("another target", [](KeptTuning* of) { of->settings.target.name = "none"; });
  refuses("a target without a value", [](KeptTuning* of) { of->settings.target.value = kNaN; });
  refuses("lengths that fall", [](KeptTuning* of) { of->settings.ranges = {"2", "1"}; });
  refuses("rows that are none", [](KeptTuning* of) { of->settings.check_rows = "none"; });
  refuses("lengths where there are no ranges", [](KeptTuning* of) { of->settings.ranges.clear(); });
  refuses("a share that is no number", [](KeptTuning* of) { of->found[0].kept_fraction = kNaN; });
  refuses("a mass without bound", [](KeptTuning* of) { of->found[0].mass.mean = kInfinity; });
  refuses("an empty range", [](KeptTuning* of) { of->found[0].lengths = {100, 100}; });
  refuses("a text of megabytes", [](KeptTuning* of) { of->found[0].note = std::string(1 << 20, 'a'); });
  refuses("a path for every byte", [](KeptTuning* of) { of->settings.checks.assign(5000, "a.h5"); });
  refuses("points without end", [](KeptTuning* of) { of->found[0].trade_off.resize(5000, of->found[0].trade_off[0]); });

  QJsonObject unknown = AsJson(tuning);
  QJsonObject settings = unknown[QStringLiteral("settings")].toObject();
  QJsonArray methods = settings[QStringLiteral("methods")].toArray();
  methods[0] =
      QJsonObject{{QStringLiteral("name"), QStringLiteral("mask-file[gone]")}, {QStringLiteral("values"), QString()}};
  settings[QStringLiteral("methods")] = methods;
  unknown[QStringLiteral("settings")] = settings;
  EXPECT_FALSE(Read(unknown));
  EXPECT_TRUE(why_.contains(QStringLiteral("mask-file[gone] is not known"))) << why_.toStdString();
}

// Each value in turn replaced by what does not belong there, or taken out.
void ForEachDamage(const QJsonValue& json, const std::function<void(const QJsonValue&)>& damaged) {
  for (const QJsonValue& other : {QJsonValue(QJsonValue::Null), QJsonValue(-1), QJsonValue(0.5), QJsonValue(1e300),
                                  QJsonValue(QStringLiteral("x")), QJsonValue(QStringLiteral("0:-1 1e9:3")),
                                  QJsonValue(QJsonArray{1}), QJsonValue(QJsonObject()), QJsonValue(true)})
    damaged(other);
  if (json.isObject()) {
    const QJsonObject object = json.toObject();
    for (auto member = object.begin(); member != object.end(); ++member) {
      QJsonObject without = object;
      without.remove(member.key());
      damaged(without);
      ForEachDamage(member.value(), [&](const QJsonValue& value) {
        QJsonObject changed = object;
        changed[member.key()] = value;
        damaged(changed);
      });
    }
  }
  if (json.isArray()) {
    const QJsonArray array = json.toArray();
    for (qsizetype i = 0; i < array.size(); ++i) {
      ForEachDamage(array[i], [&](const QJsonValue& value) {
        QJsonArray changed = array;
        changed[i] = value;
        damaged(changed);
      });
    }
  }
}

TEST_F(KeptTuningTest, ADamagedTuningIsTakenAsAWholeOrNotAtAll) {
  int taken = 0, refused = 0;
  ForEachDamage(AsJson(OddTuning()), [&](const QJsonValue& damaged) {
    const auto tuning = Read(damaged.toObject());
    if (!tuning) {
      ++refused;
      EXPECT_FALSE(why_.isEmpty());
      return;
    }
    ++taken;
    // Whatever it says is something that a window could have written.
    const QJsonObject again = AsJson(*tuning);
    const auto back = Read(again);
    ASSERT_TRUE(back) << why_.toStdString();
    EXPECT_EQ(AsJson(*back), again);
    for (const TunedSetting& found : tuning->found) {
      EXPECT_TRUE(state_.heads.Holds(found.head));
      EXPECT_LT(found.method, tuning->settings.methods.size());
      EXPECT_TRUE(std::isfinite(found.kept_fraction) && std::isfinite(found.mass.fifth_percentile));
    }
  });
  EXPECT_GT(refused, 500);
  EXPECT_GT(taken, 20) << "another number in the place of a number is one";
}

// A window as far as it keeps tunings.
struct KeepingWindow {
  KeepingWindow(const QString& folder, const QString& trace, const QString& contents = QStringLiteral("contents"))
      : keeper(&writer, folder), trace_path(trace), contents_(contents) {
    TraceSummary summary = workbench.Summary();
    summary.path = trace.toStdString();
    state.heads.SetTrace(std::move(summary));
    Open();
  }
  void Open() { kept = keeper.Open(trace_path, contents_); }
  TuningKeeper::Offer Offer() const { return tunings.FindOffer(kept.tunings); }
  // One reply, and what follows.
  void Deliver(int count) {
    workbench.DeliverReplies(count);
    QCoreApplication::processEvents();
  }
  bool Written() { return writer.Finish(20000); }

  testing::FakeWorkbench workbench{128};
  WindowState state{&workbench};
  StateWriter writer;
  TraceKeeper keeper;
  TuningKeeper tunings{&state, &keeper};
  TraceKeeper::Kept kept;
  QString trace_path, contents_;
};

class KeepingTest : public KeptTuningTest {
 protected:
  std::unique_ptr<KeepingWindow> Window(const QString& contents = QStringLiteral("contents")) const {
    return std::make_unique<KeepingWindow>(folder_.path(), trace_, contents);
  }
  // That has found a setting for the first of two heads.
  std::unique_ptr<KeepingWindow> Stopped() const {
    auto window = Window();
    window->state.sweep.Start(HeadSweep::Kind::kTune);
    window->Deliver(1);
    window->state.sweep.Stop();
    EXPECT_EQ(window->state.sweep.num_done(), 1U);
    EXPECT_TRUE(window->Written());
    return window;
  }
  QJsonArray InFile() const {
    return ReadStateFile(TraceKeeper::FileBeside(trace_), 1 << 26)[QStringLiteral("tunings")].toArray();
  }
};

TEST_F(KeepingTest, ATuningGoesOnInAnotherWindowWhereItStopped) {
  std::unique_ptr<KeepingWindow> first = Stopped();
  ASSERT_EQ(InFile().size(), 1);
  EXPECT_TRUE(Window()->Offer().id.isEmpty()) << "its window is still there";
  first.reset();

  const auto second = Window();
  const TuningKeeper::Offer offer = second->Offer();
  EXPECT_EQ(offer.sentence, QStringLiteral("A tuning of Band with sinks at cra-p5=0.95 stopped after 1 of 2 heads "
                                           "when its window ended."));
  EXPECT_EQ(offer.wrong, QString());
  ASSERT_EQ(second->tunings.TakeUp(offer.id), QString());
  HeadSweep& sweep = second->state.sweep;
  EXPECT_EQ(sweep.kind(), HeadSweep::Kind::kTune);
  EXPECT_EQ(sweep.num_done(), 1U);
  EXPECT_EQ(sweep.NumUnsaved(), 1U);
  EXPECT_EQ(sweep.TunedHeads().size(), 1U);
  ASSERT_NE(second->state.heads.ResultOf({0, 0}), nullptr) << "the matrix shows it";
  EXPECT_FALSE(second->state.heads.ResultOf({0, 0})->setting.empty());
  ASSERT_TRUE(sweep.CanResume());
  EXPECT_TRUE(Window()->Offer().id.isEmpty()) << "this one is at it";
  EXPECT_EQ(Window()->tunings.TakeUp(offer.id), QStringLiteral("Another window has taken this tuning up: go on with it "
                                                               "there."));
  sweep.Resume();
  EXPECT_EQ(second->workbench.last_tuned_heads, (std::vector<HeadId>{{0, 1}})) << "the first is done";
  second->Deliver(1 << 20);
  EXPECT_FALSE(sweep.CanResume());

  const auto at_once = Window();
  at_once->state.sweep.Start(HeadSweep::Kind::kTune);
  at_once->Deliver(1 << 20);
  EXPECT_EQ(sweep.tuning(), at_once->state.sweep.tuning());
  EXPECT_TRUE(IsSame(sweep.Tuned(), at_once->state.sweep.Tuned())) << "as if nothing had happened";
  EXPECT_EQ(sweep.Summary(), at_once->state.sweep.Summary());
}

// What it failed by may be gone: a disk that was not there, a GPU that was full.
TEST_F(KeepingTest, AFailedHeadIsTriedAgain) {
  auto first = Window();
  first->workbench.fail_next_run = true;
  first->state.sweep.Start(HeadSweep::Kind::kTune);
  first->Deliver(1 << 20);
  ASSERT_EQ(first->state.sweep.failures().size(), 1);
  const QString failure = first->state.sweep.failures().first();
  ASSERT_TRUE(first->Written());
  first.reset();
  const auto second = Window();
  const TuningKeeper::Offer offer = second->Offer();
  // It had not stopped, but come to its end.
  EXPECT_EQ(offer.sentence,
            QStringLiteral("A tuning of Band with sinks at cra-p5=0.95 was done for 1 of 2 heads, and is in no file "
                           "yet. 1 head failed and is tried again when it is resumed: %1")
                .arg(failure));
  ASSERT_EQ(second->tunings.TakeUp(offer.id), QString());
  EXPECT_TRUE(second->state.sweep.failures().isEmpty());
  ASSERT_TRUE(second->state.sweep.CanResume());
  second->state.sweep.Resume();
  second->Deliver(1 << 20);
  EXPECT_EQ(second->state.sweep.Tuned().size(), 2U);
}

TEST_F(KeepingTest, WhatIsFoundIsWrittenInAMomentAndNotForEveryHead) {
  const auto window = Window();
  window->state.sweep.Start(HeadSweep::Kind::kTune);
  QElapsedTimer since;
  since.start();
  window->Deliver(1);
  ASSERT_TRUE(window->Written());
  const qsizetype at_once = InFile().size();
  if (since.elapsed() < TuningKeeper::kWriteAfterMs) {
    EXPECT_EQ(at_once, 0) << "with the next ones";
  }
  for (int i = 0; i < 50 && InFile().isEmpty(); ++i) {
    Wait(200);
    ASSERT_TRUE(window->Written());
  }
  ASSERT_EQ(InFile().size(), 1) << "while it is running";
  window->Deliver(1 << 20);
  ASSERT_TRUE(window->Written());
  ASSERT_EQ(InFile().size(), 1);
  EXPECT_EQ(InFile()[0][QStringLiteral("tuning")][QStringLiteral("found")].toArray().size(), 2)
      << "at its end, at once";
}

TEST_F(KeepingTest, ATuningIsGoneWhenItIsSavedOrUnwantedAndElseStays) {
  auto window = Stopped();
  window->state.sweep.MarkSaved();
  ASSERT_TRUE(window->Written());
  EXPECT_TRUE(InFile().isEmpty()) << "it is in a file of its own";
  window.reset();

  window = Stopped();
  ASSERT_EQ(InFile().size(), 1);
  window->tunings.SetGoes(true);
  window->state.sweep.Start(HeadSweep::Kind::kTune);
  ASSERT_TRUE(window->Written());
  EXPECT_TRUE(InFile().isEmpty()) << "another took its place";
  window.reset();

  window = Stopped();
  window->state.sweep.Start(HeadSweep::Kind::kMeasure);
  ASSERT_TRUE(window->Written());
  ASSERT_EQ(InFile().size(), 1) << "nobody has said that it is unwanted";
  EXPECT_FALSE(window->Offer().id.isEmpty() && Window()->Offer().id.isEmpty()) << "it is nobody's any more";
  // What has been dropped meanwhile is not taken up.
  const auto other = Window();
  const TuningKeeper::Offer offer = other->Offer();
  ASSERT_FALSE(offer.id.isEmpty());
  window->keeper.DropTuning(offer.id);
  ASSERT_TRUE(window->Written());
  EXPECT_EQ(other->tunings.TakeUp(offer.id),
            QStringLiteral("This tuning is no longer with its trace: another window has saved or discarded it."));
  EXPECT_TRUE(other->state.sweep.Tuned().empty());
}

TEST_F(KeepingTest, ATuningOfOtherContentsIsNotOffered) {
  Stopped().reset();
  EXPECT_TRUE(Window(QStringLiteral("another prompt"))->kept.tunings.empty());
  EXPECT_EQ(Window()->kept.tunings.size(), 1U);
}

TEST_F(KeepingTest, ADamagedTuningIsNamedAndTheOneBeforeIsOffered) {
  Stopped().reset();
  {
    const auto damages = Window();
    damages->keeper.KeepTuning(QStringLiteral("newer"), {{QStringLiteral("settings"), 3}});
    ASSERT_TRUE(damages->Written());
  }
  const TuningKeeper::Offer offer = Window()->Offer();
  EXPECT_EQ(offer.wrong,
            QStringLiteral("A tuning kept with this trace was passed over: its \"settings\" is not of this "
                           "trace, or damaged."));
  EXPECT_EQ(offer.wrong_id, QStringLiteral("newer"));
  EXPECT_FALSE(offer.id.isEmpty());
  EXPECT_NE(offer.id, QStringLiteral("newer"));
}

// One click took hours of tuning away from a window that had only not read the method's file, also while another window
// was at it.
TEST_F(KeepingTest, WhatOnlyLacksItsMethodOrIsTakenUpIsNotDiscarded) {
  Stopped().reset();
  const QString id = InFile()[0].toObject()[QStringLiteral("id")].toString();
  {
    const auto changes = Window();
    QJsonObject tuning = changes->kept.tunings[0].second, settings = tuning[QStringLiteral("settings")].toObject();
    QJsonArray methods = settings[QStringLiteral("methods")].toArray();
    QJsonObject method = methods[0].toObject();
    method[QStringLiteral("name")] = QStringLiteral("of-a-file");
    methods[0] = method;
    settings[QStringLiteral("methods")] = methods;
    tuning[QStringLiteral("settings")] = settings;
    changes->keeper.KeepTuning(QStringLiteral("of a file"), tuning);
    ASSERT_TRUE(changes->Written());
  }
  const TuningKeeper::Offer offer = Window()->Offer();
  EXPECT_TRUE(offer.wrong.contains(QStringLiteral("its method of-a-file is not known"))) << offer.wrong.toStdString();
  EXPECT_EQ(offer.wrong_id, QString());
  const auto first = Window(), second = Window();
  ASSERT_EQ(first->tunings.TakeUp(id), QString());
  EXPECT_EQ(second->tunings.Discard(id),
            QStringLiteral("Another window has taken this tuning up, and it is not discarded."));
  ASSERT_TRUE(second->Written());
  EXPECT_EQ(InFile().size(), 2);
  first->tunings.LetGo();
  EXPECT_EQ(second->tunings.Discard(id), QString());
  ASSERT_TRUE(second->Written());
  EXPECT_EQ(InFile().size(), 1);
}

TEST_F(KeepingTest, WhereTheTracesFolderTakesNoFileTheSettingsFolderKeepsIt) {
  ASSERT_TRUE(QDir().mkpath(TraceKeeper::FileBeside(trace_)));  // a folder where the file would be
  Stopped().reset();
  const auto second = Window();
  const TuningKeeper::Offer offer = second->Offer();
  ASSERT_FALSE(offer.id.isEmpty());
  EXPECT_EQ(second->tunings.TakeUp(offer.id), QString());
  second->state.sweep.MarkSaved();
  ASSERT_TRUE(second->Written());
  EXPECT_TRUE(Window()->kept.tunings.empty());
}

// A file that no window reads again would take with it all that it held before.
TEST(StateFile, WhatWouldBeTooLargeToReadIsNotWritten) {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("state.json"));
  const auto put = [&](qsizetype size) {
    return UpdateStateFile(path, 1000, /*keep_foreign=*/true, [&](const QJsonObject&) {
      return QJsonObject{{QStringLiteral("text"), QString(size, u'a')}};
    });
  };
  ASSERT_EQ(put(900), QString());
  EXPECT_EQ(put(1000), path + QStringLiteral(" could not be written: it would be larger than any file that is read."));
  EXPECT_EQ(ReadStateFile(path, 1000)[QStringLiteral("text")].toString().size(), 900);
}

// Qt takes the last of two, so that a note that somebody wrote in between would be gone without a word.
TEST(StateFile, OfANameTwiceIsRefusedByThatName) {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("state.json"));
  const auto said = [&](const QByteArray& text) {
    QFile file(path);
    EXPECT_TRUE(file.open(QIODevice::WriteOnly) && file.write(text) == text.size());
    file.close();
    QString error;
    const bool is_read = !ReadStateFile(path, 1000, &error).isEmpty();
    EXPECT_EQ(is_read, error.isEmpty()) << text.constData();
    return error.remove(path);
  };
  const QString refused =
      QStringLiteral(" was not read: one of its objects has the name %1 twice; remove one of the two.");
  EXPECT_EQ(said(R"({"a": 1, "b": 2, "a": 3})"), refused.arg(QStringLiteral("\"a\"")));
  EXPECT_EQ(said(R"({"list": [1, {"x": {"a": [{}], "\u0061": "}:"}}]})"), refused.arg(QStringLiteral("\"a\"")));
  EXPECT_EQ(said(R"({"": 1, "": 2})"), refused.arg(QStringLiteral("\"\"")));
  EXPECT_EQ(said(R"({"\"": 1, "b": 2, "\u0022": 2})"), refused.arg(QStringLiteral("\"\\\"\"")));
  for (const char* once : {R"({"a": {"a": [{"a": 1}, {"a": 2}]}, "b": "a", "c": ["a", "a"]})",
                           R"({"a\\": 1, "a": "{\"a\": 1}"})", R"({"a": 1, "A": 2, "a ": ": \"a\":"})"})
    EXPECT_EQ(said(once), QString());
}

// Strings of an untrusted file that are no names cost what Qt takes for them: a document was parsed for each.
TEST(StateFile, EscapedStringsDoNotHoldTheWindowUp) {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("state.json"));
  QByteArray text = R"({"\n": [)" + QByteArray(R"("\n",)").repeated(500000) + R"(0], "\u00e9\t\/\ud83d\ude42": 1})";
  QFile file(path);
  ASSERT_TRUE(file.open(QIODevice::WriteOnly) && file.write(text) == text.size());
  file.close();
  QString error;
  EXPECT_TRUE(TakesLess([&] { EXPECT_EQ(ReadStateFile(path, 1 << 26, &error).size(), 2); }, 3,
                        [&] { EXPECT_TRUE(QJsonDocument::fromJson(text).isObject()); }));
  EXPECT_EQ(error, QString());
  text.replace(R"("\n": [)", "\"\u00e9\\t/\U0001F642\": [");
  ASSERT_TRUE(file.open(QIODevice::WriteOnly) && file.write(text) == text.size());
  file.close();
  EXPECT_TRUE(ReadStateFile(path, 1 << 26, &error).isEmpty());
  EXPECT_TRUE(error.contains(QStringLiteral(" twice;"))) << error.toStdString();
}

// It was replaced as if it had been empty, with all that it held.
TEST(StateFile, OfANameTwiceIsNeverReplaced) {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("state.json"));
  const QByteArray text = R"({"a": 1, "b": 2, "a": 3})";
  const auto replace = [&](const QByteArray& present) {
    QFile file(path);
    EXPECT_TRUE(file.open(QIODevice::WriteOnly) && file.write(present) == present.size());
    file.close();
    return UpdateStateFile(path, 1000, /*keep_foreign=*/false, [](const QJsonObject&) {
      return QJsonObject{{QStringLiteral("c"), 4}};
    });
  };
  EXPECT_EQ(replace(text),
            path + QStringLiteral(" was not changed: one of its objects has the name \"a\" twice; remove "
                                  "one of the two."));
  QFile file(path);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_EQ(file.readAll(), text);
  EXPECT_EQ(replace("no JSON"), QString());
  EXPECT_EQ(ReadStateFile(path, 1000)[QStringLiteral("c")].toInt(), 4);
}

}  // namespace
}  // namespace headscope::ui
