// SPDX-License-Identifier: Apache-2.0
// What outlives a window: the runs of a trace, its head and zoom, theme and recent files; whether the window is closed,
// killed, or one of two.
#include <signal.h>

#include <QAction>
#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLabel>
#include <QProcess>
#include <QProcessEnvironment>
#include <QTableView>
#include <QUndoStack>
#include <algorithm>
#include <set>
#include <string>

#include "set_repeats.h"
#include "shell_fixture.h"
#include "state_file.h"
#include "trace_keeper.h"
#include "worth_a_look.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

class KeptStateTest : public ShellTest {
 protected:
  void Open(const QString& path) {
    OpenWindow(path);
    ASSERT_TRUE(WaitForStatistics());
    ASSERT_TRUE(WaitForCanvas());
    SetRepeats(window_->canvas(), 1);
  }
  ui::RunsModel* Runs() { return static_cast<ui::RunsModel*>(Find<QTableView>("runsTable")->model()); }
  // "method parameters" of every run in the table.
  std::set<std::string> Shown() {
    std::set<std::string> shown;
    for (const analysis::MethodResult& run : Runs()->runs()) {
      if (run.method != "dense" && run.method != "decode/dense") shown.insert(run.method + " " + run.parameters);
    }
    return shown;
  }
  bool Measure(Command command = Command::kRun) {
    const auto before = Runs()->runs().size();
    window_->commands()[command]->trigger();
    auto* progress = Find<ui::ProgressStrip>("progressStrip");
    return WaitFor([&] { return Runs()->runs().size() > before && !progress->IsBusy(); }, 120000);
  }
  static QJsonArray RunsIn(const QString& path) {
    return ui::ReadStateFile(path, 1 << 26)[QStringLiteral("runs")].toArray();
  }
  bool WaitForRunsIn(const QString& path, int count) {
    return WaitFor([&] { return RunsIn(path).size() >= count; }, 60000);
  }
  QString Beside() const { return ui::TraceKeeper::FileBeside(trace_path()); }
  // The program itself, with a session of its own in this test's folder.
  std::unique_ptr<QProcess> Start(const QString& trace, const QString& commands) {
    auto process = std::make_unique<QProcess>();
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(QStringLiteral("XDG_CONFIG_HOME"), File(QStringLiteral("config")));
    environment.insert(QStringLiteral("XDG_CACHE_HOME"), File(QStringLiteral("cache")));
    environment.insert(QStringLiteral("HEADSCOPE_COMMANDS"), commands);
    process->setProcessEnvironment(environment);
    process->setProcessChannelMode(QProcess::ForwardedChannels);
    process->start(QStringLiteral(HEADSCOPE_PROGRAM), {trace});
    EXPECT_TRUE(process->waitForStarted());
    return process;
  }
  QString ProgramsSession() const { return File(QStringLiteral("config/headscope/session.json")); }
  static void Kill(QProcess& process) {
    ASSERT_EQ(process.state(), QProcess::Running) << "it ended by itself";
    ::kill(static_cast<pid_t>(process.processId()), SIGKILL);
    process.waitForFinished();
  }
};

// Runs lived in memory only, and were gone with the window or the trace.
TEST_F(KeptStateTest, RunsComeBackWithTheirTraceAndNothingIsAsked) {
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  ASSERT_TRUE(Measure());
  const std::set<std::string> measured = Shown();
  ASSERT_EQ(measured.size(), 1u);
  const analysis::MethodResult run = Runs()->runs().back();
  const QString other = File(QStringLiteral("other.h5"));
  ASSERT_TRUE(QFile::copy(trace_path(), other));
  window_->OpenPath(other);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().path == other.toStdString(); }));
  EXPECT_EQ(Shown().size(), 0u);
  window_->OpenPath(trace_path());
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().path == trace_path().toStdString(); }));
  EXPECT_EQ(Shown(), measured);
  OpenWindow(QString());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(Shown(), measured);
  EXPECT_EQ(questions_.size(), 0u);
  const auto& runs = Runs()->runs();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].method, "dense");
  EXPECT_EQ(runs[1].attend.median_ms, run.attend.median_ms);
  EXPECT_EQ(runs[1].speedup, run.speedup);
  EXPECT_EQ(runs[1].origin.measured_at, run.origin.measured_at);
  EXPECT_EQ(runs[1].origin.trace, trace_path().toStdString());
}

TEST_F(KeptStateTest, ATraceRecordedAnewShowsNoRunsOfTheOneBefore) {
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  ASSERT_TRUE(Measure());
  CloseWindow();
  WriteSmallTrace(trace_path().toStdString(), /*window=*/64);  // another model under the same name
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  EXPECT_EQ(Runs()->rowCount(), 0);
  EXPECT_EQ(RunsIn(Beside()).size(), 1) << "they are still in the file";
}

TEST_F(KeptStateTest, ClearedRunsAreGoneFromTheFileAndUndoBringsThemBack) {
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  ASSERT_TRUE(Measure());
  const std::set<std::string> measured = Shown();
  ASSERT_TRUE(WaitForRunsIn(Beside(), 1));
  window_->commands()[Command::kClearRuns]->trigger();
  EXPECT_EQ(Runs()->rowCount(), 0);
  ASSERT_TRUE(WaitFor([&] { return RunsIn(Beside()).isEmpty(); }));
  QTest::mouseClick(Find<QPushButton>("noticeAction"), Qt::LeftButton);
  EXPECT_EQ(Shown(), measured);
  EXPECT_TRUE(WaitForRunsIn(Beside(), 1));
}

// Ctrl+Z took something else back: what had been set before the runs were cleared.
TEST_F(KeptStateTest, ThatRunsAreClearedIsAStep) {
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  ASSERT_TRUE(Measure());
  const std::set<std::string> measured = Shown();
  const auto take = [&](Command command) { window_->commands()[command]->trigger(); };
  const ui::HeadStore& heads = *window_->store();
  const std::string metric = heads.metric();
  window_->store()->SetMetric("entropy");
  take(Command::kClearRuns);
  ASSERT_EQ(Runs()->rowCount(), 0);
  take(Command::kUndo);
  EXPECT_EQ(Shown(), measured);
  EXPECT_EQ(heads.metric(), "entropy");
  EXPECT_TRUE(WaitForRunsIn(Beside(), 1));
  take(Command::kRedo);
  EXPECT_EQ(Runs()->rowCount(), 0);
  // The notice's button is the same step.
  take(Command::kUndo);
  take(Command::kClearRuns);
  QTest::mouseClick(Find<QPushButton>("noticeAction"), Qt::LeftButton);
  EXPECT_EQ(Shown(), measured);
  take(Command::kUndo);
  EXPECT_EQ(heads.metric(), metric) << "the step before";
}

// They replaced what had been measured since, in the table and in the file.
TEST_F(KeptStateTest, ClearedRunsThatComeBackLeaveNewerOnesAlone) {
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  ASSERT_TRUE(Measure());
  const auto run_of = [&](const std::string& method) {
    const auto& runs = Runs()->runs();
    return *std::ranges::find(runs, method, &analysis::MethodResult::method);
  };
  const std::string method = Runs()->runs().back().method;
  const analysis::MethodResult older = run_of(method);
  window_->commands()[Command::kClearRuns]->trigger();
  EXPECT_TRUE(Find<QPushButton>("noticeAction")->isVisible());
  ASSERT_TRUE(Measure());
  const analysis::MethodResult newer = run_of(method), dense = run_of("dense");
  ASSERT_NE(newer.attend.median_ms, older.attend.median_ms);
  window_->commands()[Command::kUndo]->trigger();
  EXPECT_EQ(run_of(method).attend.median_ms, newer.attend.median_ms);
  EXPECT_EQ(run_of("dense").attend.median_ms, dense.attend.median_ms);
  EXPECT_FALSE(Find<QPushButton>("noticeAction")->isVisible()) << "there is nothing left to undo by it";
  // Another method's run comes back, and not with its baseline.
  window_->commands()[Command::kRedo]->trigger();
  ASSERT_EQ(Runs()->rowCount(), 0);
  const auto& methods = window_->canvas()->methods();
  const auto another =
      std::ranges::find(methods, method == "a-shape" ? "block-sparse" : "a-shape", &kernels::MethodSpec::name);
  ASSERT_TRUE(window_->canvas()->SetMethod(QString::fromStdString(another->name), kernels::ParameterValues(*another)));
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(Measure());
  const analysis::MethodResult last = run_of("dense");
  ASSERT_NE(last.attend.median_ms, dense.attend.median_ms);
  QUndoStack* const steps = window_->state()->parameters.stack();
  while (steps->canUndo() && Shown().size() < 2) window_->commands()[Command::kUndo]->trigger();
  EXPECT_EQ(run_of(method).attend.median_ms, newer.attend.median_ms);
  EXPECT_EQ(run_of("dense").attend.median_ms, last.attend.median_ms);
}

TEST_F(KeptStateTest, WhereTheTracesFolderTakesNoFileTheSettingsFolderDoesAndItIsSaid) {
  ASSERT_TRUE(QDir().mkpath(Beside()));  // a folder of that name takes nobody's rights to be in the way
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  ASSERT_TRUE(Measure());
  auto* notice = Find<QLabel>("noticeText");
  EXPECT_TRUE(WaitFor([&] { return notice->text().contains(QStringLiteral("saved to")); }))
      << notice->text().toStdString();
  // Whatever is in the way: rights, a full disk, a folder.
  EXPECT_TRUE(notice->text().startsWith(QStringLiteral("Nothing can be written beside small.h5")))
      << notice->text().toStdString();
  const std::set<std::string> measured = Shown();
  OpenWindow(QString());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(Shown(), measured);
  EXPECT_EQ(questions_.size(), 0u);
}

TEST_F(KeptStateTest, AFileOfSomebodyElseIsLeftAlone) {
  for (const char* text : {"my notes", R"({"runs": "mine"})"}) {
    QFile file(Beside());
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text);
    file.close();
    ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
    ASSERT_TRUE(Measure(Command::kRun));
    window_->commands()[Command::kClearRuns]->trigger();
    ASSERT_TRUE(Measure(Command::kRun));
    CloseWindow();
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    EXPECT_EQ(file.readAll(), QByteArray(text));
    ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
    EXPECT_EQ(Shown().size(), 1u);
    window_->commands()[Command::kClearRuns]->trigger();
    CloseWindow();
  }
}

// What was in it was not there, and the next run was saved elsewhere as if the folder took no files.
TEST_F(KeptStateTest, AFileWithANameTwiceIsNamedOnOpeningAndOnSaving) {
  QFile file(Beside());
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write(R"({"schema": "headscope-trace-state-1", "notes": [], "runs": [], "notes": []})");
  file.close();
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  auto* notice = Find<QLabel>("noticeText");
  const QString why =
      QStringLiteral(" was not read: one of its objects has the name \"notes\" twice; remove one of the two.");
  EXPECT_TRUE(notice->isVisible());
  EXPECT_TRUE(notice->text().startsWith(QStringLiteral("Not all that was kept of this trace is shown. ")));
  EXPECT_TRUE(notice->text().endsWith(why)) << notice->text().toStdString();
  ASSERT_TRUE(Measure(Command::kRun));
  EXPECT_TRUE(WaitFor([&] { return notice->text().contains(QStringLiteral("saved to")); }));
  EXPECT_TRUE(notice->text().endsWith(why)) << notice->text().toStdString();
}

TEST_F(KeptStateTest, SavedRunsAreLoaded) {
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  ASSERT_TRUE(Measure());
  const std::set<std::string> measured = Shown();
  for (const char* name : {"runs.csv", "runs.json"}) {
    AnswerFileDialog(File(QLatin1String(name)));
    window_->commands()[Command::kExportRuns]->trigger();
    ASSERT_TRUE(QFile::exists(File(QLatin1String(name))));
    window_->commands()[Command::kClearRuns]->trigger();
    ASSERT_EQ(Runs()->rowCount(), 0);
    AnswerFileDialog(File(QLatin1String(name)));
    window_->commands()[Command::kLoadRuns]->trigger();
    EXPECT_EQ(Shown(), measured) << name << ": " << Find<QLabel>("noticeText")->text().toStdString();
  }
  QFile csv(File(QStringLiteral("runs.csv")));
  ASSERT_TRUE(csv.open(QIODevice::ReadOnly));
  const QByteArray text = csv.readAll();
  for (const char* column : {"trace", "model", "device", "measured_at", "version"})
    EXPECT_TRUE(text.left(text.indexOf('\n')).split(',').contains(column)) << column;
  EXPECT_TRUE(text.contains(trace_path().toUtf8()));

  AnswerFileDialog(trace_path());
  window_->commands()[Command::kLoadRuns]->trigger();
  EXPECT_EQ(Shown(), measured) << "what is no table of runs changes nothing";
  EXPECT_TRUE(Find<QLabel>("noticeText")->text().contains(trace_path()));
}

// Theme, recent files, the trace, its head and all runs were written at a clean quit only.
TEST_F(KeptStateTest, AKilledWindowLosesNothing) {
  const auto process = Start(trace_path(), QStringLiteral("theme-dark,next-head,log-scale,run,next-method,run"));
  ASSERT_TRUE(WaitForRunsIn(Beside(), 2)) << "two runs are measured, and each is in the file at once";
  Kill(*process);
  const ui::Session session = ui::Session::Load(ProgramsSession());
  EXPECT_EQ(session.theme, QStringLiteral("dark"));
  EXPECT_EQ(session.last_trace, trace_path());
  EXPECT_EQ(session.recent, QStringList{trace_path()});

  window_ = std::make_unique<ui::MainWindow>(workbench_.get(), ProgramsSession());
  window_->show();
  window_->OpenAtStart(QString(), QString());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(window_->canvas()->head(), (HeadId{0, 1}));
  EXPECT_EQ(window_->canvas()->scale(), ui::ColorScale::kLinear);
  EXPECT_EQ(window_->theme()->name(), QStringLiteral("dark"));
  EXPECT_EQ(Shown().size(), 2u);
}

// Two windows wrote over each other's session, and knew nothing of each other's runs.
TEST_F(KeptStateTest, TwoKilledWindowsOnOneTraceKeepTheRunsOfBoth) {
  const auto first = Start(trace_path(), QStringLiteral("theme-dark,run"));
  const auto second = Start(trace_path(), QStringLiteral("next-method,run,next-method,run"));
  ASSERT_TRUE(WaitForRunsIn(Beside(), 3));
  // A third, on another trace, opens and ends while the two are there.
  const QString other = File(QStringLiteral("other.h5"));
  ASSERT_TRUE(QFile::copy(trace_path(), other));
  const auto third = Start(other, QStringLiteral("quit"));
  ASSERT_TRUE(WaitFor([&] { return third->state() == QProcess::NotRunning || third->waitForFinished(1); }, 60000));
  Kill(*first);
  Kill(*second);
  const ui::Session session = ui::Session::Load(ProgramsSession());
  EXPECT_EQ(session.theme, QStringLiteral("dark")) << "set by one, not undone by the others";
  EXPECT_EQ(QSet<QString>(session.recent.begin(), session.recent.end()), (QSet<QString>{trace_path(), other}));
  std::set<std::string> ids;
  for (const QJsonValue run : RunsIn(Beside())) ids.insert(run[QStringLiteral("id")].toString().toStdString());
  EXPECT_EQ(ids.size(), 3u);
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  EXPECT_EQ(Shown().size(), 3u);
}

TEST_F(KeptStateTest, HeadAndZoomOfATraceComeBackThoughAnotherWasOpenLast) {
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  window_->store()->Select({1, 2});
  window_->canvas()->GoTo(300, 200);
  ASSERT_TRUE(WaitForCanvas());
  const QJsonValue view = window_->canvas()->ViewState()[QStringLiteral("view")];
  const QString other = File(QStringLiteral("other.h5"));
  ASSERT_TRUE(QFile::copy(trace_path(), other));
  window_->OpenPath(other);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().path == other.toStdString(); }));
  window_->store()->Select({0, 3});
  window_->canvas()->FitView();
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(window_->canvas()->head(), (HeadId{1, 2}));
  EXPECT_EQ(window_->canvas()->ViewState()[QStringLiteral("view")].toObject()[QStringLiteral("scores_per_pixel")],
            view.toObject()[QStringLiteral("scores_per_pixel")]);
}

// It opened on head 0:0, whatever that looked like.
TEST_F(KeptStateTest, ATraceOfTheCommandLineOpensOnAHeadWorthALookOrWhereItWasLeft) {
  QString path;
  const auto start = [&] {
    CloseWindow();
    window_ = std::make_unique<ui::MainWindow>(workbench_.get(), File(QStringLiteral("session.json")));
    window_->resize(1400, 860);
    window_->show();
    window_->OpenAtStart(path, QString());
    ASSERT_TRUE(WaitForCanvas());
    ASSERT_TRUE(WaitFor([&] { return window_->store()->HasAllStatistics(); }));
    QTest::qWait(50);
  };
  // Heads 0 and 1 are the sparsest there are, and a trace that begins with its best head would prove nothing.
  std::optional<HeadId> best;
  for (const char* heads : {"2-3", "3", "2"}) {
    path = File(QStringLiteral("heads-%1.h5").arg(QLatin1String(heads)));
    ASSERT_EQ(QProcess::execute(QStringLiteral(HEADSCOPE_PROGRAM),
                                {QStringLiteral("export"), trace_path(), QStringLiteral("-o"), path,
                                 QStringLiteral("--heads"), QLatin1String(heads)}),
              0);
    ASSERT_NO_FATAL_FAILURE(start());
    const std::vector<ui::HeadWorthALook> found = ui::HeadsWorthALook(*window_->store());
    ASSERT_FALSE(found.empty());
    if (found.front().head == window_->store()->trace().heads.front()) continue;
    best = found.front().head;
    break;
  }
  ASSERT_TRUE(best);
  EXPECT_EQ(window_->canvas()->head(), best);
  const HeadId last = window_->store()->trace().heads.back();
  window_->store()->Select(last == *best ? window_->store()->trace().heads.front() : last);
  ASSERT_TRUE(WaitForCanvas());
  const auto left = window_->canvas()->head();
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_EQ(window_->canvas()->head(), left) << "where it was left";
}

// The head that the window has opened on was taken from whoever had chosen just that one.
TEST_F(KeptStateTest, WhoHasChosenTheFirstHeadOrMovedItsMapStaysThere) {
  const QString path = File(QStringLiteral("heads.h5"));
  ASSERT_EQ(QProcess::execute(QStringLiteral(HEADSCOPE_PROGRAM),
                              {QStringLiteral("export"), trace_path(), QStringLiteral("-o"), path,
                               QStringLiteral("--heads"), QStringLiteral("2-3")}),
            0);
  for (const bool chooses : {true, false}) {
    CloseWindow();
    // Its own folder: where a trace was left, it is opened again.
    const QString copy = File(QStringLiteral("copy-%1.h5").arg(chooses));
    ASSERT_TRUE(QFile::copy(path, copy));
    window_ = std::make_unique<ui::MainWindow>(workbench_.get(), File(QStringLiteral("session-%1.json").arg(chooses)));
    window_->resize(1400, 860);
    window_->show();
    HeadId first;
    // As soon as the trace is there, before its statistics are.
    QObject::connect(
        window_->store(), &ui::HeadStore::SelectionChanged, window_.get(),
        [&](HeadId head) {
          first = head;
          QTimer::singleShot(0, window_.get(), [&, head] {
            if (chooses) window_->store()->Select(head);
            if (!chooses) window_->canvas()->ZoomTo(10, 40, 0, 40);
          });
        },
        Qt::SingleShotConnection);
    window_->OpenAtStart(copy, QString());
    ASSERT_TRUE(WaitForCanvas());
    ASSERT_TRUE(WaitFor([&] { return window_->store()->HasAllStatistics(); }));
    QTest::qWait(50);
    ASSERT_NE(ui::HeadsWorthALook(*window_->store()).front().head, first) << "there is another one to go to";
    EXPECT_EQ(window_->canvas()->head(), first) << chooses;
  }
}

// A first start shows what the window is for: a mask that leaves something out and still reaches the target. Who has
// chosen a method meanwhile, or begun to measure, is left alone.
TEST_F(KeptStateTest, AFirstStartShowsAMethodAtItsTarget) {
  enum class Somebody { kWaits, kChooses, kTunesAllHeads };
  int number = 0;
  for (const Somebody somebody : {Somebody::kWaits, Somebody::kChooses, Somebody::kTunesAllHeads}) {
    CloseWindow();
    // Nothing is kept beside it.
    const QString trace = File(QStringLiteral("shipped-%1.h5").arg(++number));
    ASSERT_TRUE(QFile::link(ShippedTrace(), trace));
    window_ = std::make_unique<ui::MainWindow>(workbench_.get(), File(QStringLiteral("first-%1.json").arg(number)));
    window_->resize(1400, 860);
    window_->show();
    ui::MethodTrial& trial = window_->state()->trial;
    ASSERT_NE(trial.method(), nullptr);
    const std::string chosen = "block-sparse", first = trial.method()->name;
    window_->OpenAtStart(QString(), trace);
    if (somebody == Somebody::kChooses) {
      ASSERT_TRUE(WaitForCanvas());
      // Before the statistics are there, or behind what the window tried.
      ASSERT_TRUE(trial.SelectMethod(chosen));
      ASSERT_TRUE(
          WaitFor([&] { return window_->store()->HasAllStatistics() && !window_->state()->queue.searching(); }, 60000));
      EXPECT_EQ(trial.method()->name, chosen);
      continue;
    }
    if (somebody == Somebody::kTunesAllHeads) {
      ASSERT_TRUE(WaitFor([&] { return window_->store()->selected().has_value(); }));
      ASSERT_FALSE(window_->store()->HasAllStatistics()) << "the test comes too late";
      const std::optional<HeadId> head = window_->store()->selected();
      const ui::HeadSweep& sweep = window_->state()->sweep;
      window_->state()->sweep.Start(ui::HeadSweep::Kind::kTune);
      ASSERT_TRUE(sweep.running());
      ASSERT_TRUE(WaitFor([&] { return window_->store()->HasAllStatistics(); }, 60000));
      QTest::qWait(50);
      EXPECT_FALSE(sweep.CanResume()) << "nothing that nobody asked for stopped it";
      EXPECT_EQ(window_->store()->selected(), head);
      EXPECT_EQ(trial.method()->name, first);
      continue;
    }
    ASSERT_TRUE(WaitFor(
        [&] {
          return window_->store()->HasAllStatistics() && !window_->state()->queue.searching() && trial.mask() &&
                 !trial.mask_pending() && trial.method()->name != first;
        },
        60000));
    EXPECT_EQ(window_->canvas()->head(), ui::HeadsWorthALook(*window_->store()).front().head);
    EXPECT_FALSE(trial.method()->IsStatic());
    EXPECT_GE(trial.mask()->summary.cra_p5, trial.target());
    EXPECT_LT(trial.mask()->summary.kept_fraction, 0.9);
    EXPECT_FALSE(window_->state()->parameters.stack()->canUndo()) << "nobody has set it";
    EXPECT_FALSE(Find<QFrame>("notice")->isVisible());
  }
}

// The lost trace's zoom and colour range made no sense on the one that took its place.
TEST_F(KeptStateTest, FallbackTraceIsShownWholeWithItsOwnRange) {
  const QString lost = File(QStringLiteral("lost.h5"));
  ASSERT_TRUE(QFile::copy(trace_path(), lost));
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  const QJsonObject fresh = window_->canvas()->ViewState();
  OpenWindow(lost);
  ASSERT_TRUE(WaitForCanvas());
  window_->store()->Select({1, 1});
  window_->canvas()->GoTo(300, 200);
  ASSERT_TRUE(WaitForCanvas());  // the range waits for the tiles that it is fitted to
  window_->canvas()->FitRange();
  window_->canvas()->SetColorMap(QStringLiteral("magma"));
  CloseWindow();
  ASSERT_TRUE(QFile::remove(lost));
  ASSERT_TRUE(QFile::remove(ui::TraceKeeper(nullptr, folder_.path()).FileInSettings(trace_path())));

  window_ = std::make_unique<ui::MainWindow>(workbench_.get(), File(QStringLiteral("session.json")));
  window_->resize(1400, 860);
  window_->show();
  window_->OpenAtStart(QString(), trace_path());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_TRUE(Find<QLabel>("noticeText")->text().contains(lost)) << "it is said that the other is gone";
  EXPECT_TRUE(Find<QFrame>("notice")->isVisible());
  const QJsonObject shown = window_->canvas()->ViewState();
  for (const char* name : {"range_log2_min", "range_log2_max"})
    EXPECT_EQ(shown[QLatin1String(name)], fresh[QLatin1String(name)]) << name;
  const QPointF last = window_->canvas()->PixelOf(kTokens - 1, kTokens - 1), first = window_->canvas()->PixelOf(0, 0);
  EXPECT_TRUE(window_->canvas()->rect().contains(first.toPoint()) &&
              window_->canvas()->rect().contains(last.toPoint()));
  EXPECT_EQ(window_->canvas()->color_map(), QStringLiteral("magma")) << "colours are a matter of taste, not of a trace";
}

TEST_F(KeptStateTest, AnErrorGoesWhenATraceOpens) {
  ASSERT_NO_FATAL_FAILURE(Open(trace_path()));
  window_->OpenPath(File(QStringLiteral("missing.h5")));
  auto* notice = Find<QFrame>("notice");
  ASSERT_TRUE(WaitFor([&] { return notice->isVisible(); }));
  const QString other = File(QStringLiteral("other.h5"));
  ASSERT_TRUE(QFile::copy(trace_path(), other));
  window_->OpenPath(other);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().path == other.toStdString(); }));
  EXPECT_FALSE(notice->isVisible()) << Find<QLabel>("noticeText")->text().toStdString();
}

TEST_F(KeptStateTest, StatisticsAreResumedAfterACancel) {
  OpenWindow(ShippedTrace());
  ASSERT_TRUE(WaitFor([&] { return window_->store()->AllStatistics().size() >= 3; }));
  window_->commands()[Command::kCancelWork]->trigger();
  const auto known = window_->store()->AllStatistics().size();
  ASSERT_LT(known, 80u) << "cancelled while they were under way";
  ASSERT_TRUE(Find<QPushButton>("noticeAction")->isVisible());
  EXPECT_EQ(Find<QLabel>("noticeText")->text(),
            QStringLiteral("Statistics stopped. The remaining heads keep their quick estimates, or have none yet."));
  QTest::mouseClick(Find<QPushButton>("noticeAction"), Qt::LeftButton);
  // Before the first of them reports, which of a long prompt takes a while.
  EXPECT_EQ(Find<QLabel>("progressText")->text(), QStringLiteral("Statistics of the heads"));
  EXPECT_TRUE(WaitFor([&] { return window_->store()->AllStatistics().size() == 80; }, 60000));
}

}  // namespace
}  // namespace headscope::gui_test
