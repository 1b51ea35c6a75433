// SPDX-License-Identifier: Apache-2.0
// A tuning that its window did not live to export: it lies with its trace, is offered when that is opened again, goes
// on where it stopped, and is then the tuning that it would have been.
#include <signal.h>

#include <QAction>
#include <QJsonArray>
#include <QLabel>
#include <QProcess>
#include <QProcessEnvironment>
#include <QPushButton>
#include <memory>

#include "reach_fixture.h"
#include "state_file.h"
#include "trace_keeper.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class KeptTuningWindowTest : public ReachTest {
 protected:
  QJsonArray InFile() const {
    return ui::ReadStateFile(ui::TraceKeeper::FileBeside(trace_path()), 1 << 26)[QStringLiteral("tunings")].toArray();
  }
  ui::HeadSweep& Sweep() { return window_->state()->sweep; }
  QString Notice() { return Find<QLabel>("noticeText")->text(); }
  bool IsOffered() {
    return WaitFor([&] { return Notice().startsWith(QStringLiteral("A tuning of ")); }, 3000);
  }
  void TakeIt() { QTest::mouseClick(Find<QPushButton>("noticeAction"), Qt::LeftButton); }
  QByteArray Exported(const char* name) {
    const QString path = File(QLatin1String(name));
    AnswerFileDialog(path);
    window_->commands()[Command::kExportTuning]->trigger();
    EXPECT_TRUE(WaitFor([&] { return QFile::exists(path); })) << Notice().toStdString();
    QFile file(path);
    EXPECT_TRUE(file.open(QIODevice::ReadOnly));
    return Undated(file.readAll());
  }
  void UseSome() {
    ASSERT_NO_FATAL_FAILURE(Use("a-shape", "n_sink=4,n_local=64"));
    window_->state()->trial.SetTarget(0.6);
    QTest::qWait(30);
  }
  // Stops when three of eight heads are tuned.
  void TuneHalf() {
    auto* until = new QObject(window_.get());
    QObject::connect(&Sweep(), &ui::HeadSweep::Found, until, [this] {
      if (Sweep().num_done() == 3) Sweep().Stop();
    });
    window_->commands()[Command::kSweepTune]->trigger();
    ASSERT_TRUE(WaitFor([&] { return !Sweep().running(); }, 120000));
    ASSERT_EQ(Sweep().num_done(), 3U);
    delete until;
  }
};

TEST_F(KeptTuningWindowTest, ATuningGoesOnWhereItsWindowEndedAndIsExportedByteByByte) {
  Open();
  ASSERT_NO_FATAL_FAILURE(UseSome());
  ASSERT_TRUE(Finish(Command::kSweepTune));
  const QByteArray at_once = Exported("at-once.json");
  ASSERT_FALSE(at_once.isEmpty());
  ASSERT_NO_FATAL_FAILURE(TuneHalf());
  ASSERT_TRUE(WaitFor([&] { return !InFile().isEmpty(); }));
  window_.reset();  // it is neither closed nor asked

  Open();
  ASSERT_TRUE(IsOffered()) << Notice().toStdString();
  EXPECT_EQ(Notice(), QStringLiteral("A tuning of MInference A-shape at cra-p5=0.6 stopped after 3 of 8 heads when its "
                                     "window ended."));
  EXPECT_FALSE(window_->commands()[Command::kSweepResume]->isEnabled());
  TakeIt();
  EXPECT_EQ(Sweep().Tuned().size(), 3U);
  EXPECT_EQ(window_->store()->metric(), "result.kept") << "the matrix shows it";
  EXPECT_TRUE(window_->commands()[Command::kSweepResume]->isEnabled());
  EXPECT_TRUE(window_->commands()[Command::kUseTuned]->isEnabled());
  EXPECT_EQ(Notice(), QStringLiteral("Stopped after 3 of 8 heads."));
  TakeIt();
  ASSERT_TRUE(WaitFor([&] { return !Sweep().running() && Sweep().Tuned().size() == 8; }, 120000));
  EXPECT_EQ(Exported("again.json"), at_once);
  EXPECT_TRUE(WaitFor([&] { return InFile().isEmpty(); })) << "it is in a file of its own";
  EXPECT_TRUE(window_->close()) << "and not asked about";
}

TEST_F(KeptTuningWindowTest, WhoQuitsMayKeepATuningOrDropItForGood) {
  Open();
  ASSERT_NO_FATAL_FAILURE(UseSome());
  ASSERT_NO_FATAL_FAILURE(TuneHalf());
  AnswerQuestion(QStringLiteral("Keep"));
  ASSERT_TRUE(window_->close());
  ASSERT_EQ(questions_.size(), 1U);
  ASSERT_EQ(InFile().size(), 1);
  window_.reset();

  Open();
  ASSERT_TRUE(IsOffered()) << Notice().toStdString();
  QTest::mouseClick(Find<QAbstractButton>("noticeClose"), Qt::LeftButton);
  ASSERT_TRUE(window_->close());
  ASSERT_EQ(questions_.size(), 1U) << "it was not taken up";
  window_.reset();

  Open();
  ASSERT_TRUE(IsOffered()) << "the cross leaves it as it is";
  TakeIt();
  ASSERT_EQ(Sweep().Tuned().size(), 3U);
  AnswerQuestion(QStringLiteral("Discard"));
  ASSERT_TRUE(window_->close());
  ASSERT_EQ(questions_.size(), 2U);
  EXPECT_TRUE(InFile().isEmpty());
  window_.reset();
  Open();
  EXPECT_FALSE(IsOffered()) << Notice().toStdString();
}

TEST_F(KeptTuningWindowTest, WhatWasTunedIsNotReplacedUnasked) {
  Open();
  ASSERT_NO_FATAL_FAILURE(UseSome());
  ASSERT_NO_FATAL_FAILURE(TuneHalf());
  for (const Command command : {Command::kSweepTune, Command::kSweepMeasure}) {
    AnswerQuestion(QStringLiteral("Cancel"));
    const size_t before = questions_.size();
    window_->commands()[command]->trigger();
    EXPECT_EQ(questions_.size(), before + 1);
    EXPECT_EQ(Sweep().Tuned().size(), 3U);
    EXPECT_FALSE(Sweep().running());
    QTest::qWait(1);
  }
  // The same trace again, and the tuning stays with it.
  AnswerQuestion(QStringLiteral("Keep"));
  window_->OpenPath(trace_path());
  ASSERT_TRUE(IsOffered()) << Notice().toStdString();
  EXPECT_TRUE(Sweep().Tuned().empty());
  TakeIt();
  EXPECT_EQ(Sweep().Tuned().size(), 3U);
  AnswerQuestion(QStringLiteral("Discard"));
  window_->commands()[Command::kSweepTune]->trigger();
  EXPECT_TRUE(Sweep().running());
  ASSERT_TRUE(WaitFor([&] { return !Sweep().running(); }, 120000));
  EXPECT_TRUE(WaitFor([&] { return InFile().size() == 1; })) << "the new one in its place";
}

// It was told at every opening, and nothing could be done about it but to edit the file.
TEST_F(KeptTuningWindowTest, ATuningThatCannotBeReadIsDiscarded) {
  Open();
  const std::string contents = window_->store()->trace().contents;
  window_.reset();
  const QJsonObject damaged{{QStringLiteral("id"), QStringLiteral("x")},
                            {QStringLiteral("contents"), QString::fromStdString(contents)},
                            {QStringLiteral("tuning"), QJsonObject{{QStringLiteral("settings"), 3}}}};
  ASSERT_EQ(ui::UpdateStateFile(ui::TraceKeeper::FileBeside(trace_path()), 1 << 26, /*keep_foreign=*/true,
                                [&](QJsonObject present) {
                                  present[QStringLiteral("schema")] = QStringLiteral("headscope-trace-state-1");
                                  present[QStringLiteral("tunings")] = QJsonArray{damaged};
                                  return present;
                                }),
            QString());
  const auto is_told = [&] {
    return WaitFor([&] { return Notice().startsWith(QStringLiteral("A tuning kept with this trace")); }, 3000);
  };
  Open();
  ASSERT_TRUE(is_told());
  ASSERT_EQ(Find<QPushButton>("noticeAction")->text(), QStringLiteral("Discard it"));
  TakeIt();
  EXPECT_TRUE(WaitFor([&] { return InFile().isEmpty(); }));
  window_.reset();
  Open();
  EXPECT_FALSE(is_told()) << Notice().toStdString();
}

TEST_F(KeptTuningWindowTest, WhatOnlyLacksItsMethodIsNotOfferedForDiscarding) {
  Open();
  const std::string contents = window_->store()->trace().contents;
  window_.reset();
  const QJsonObject settings{
      {QStringLiteral("methods"), QJsonArray{QJsonObject{{QStringLiteral("name"), QStringLiteral("of-a-file")}}}}};
  const QJsonObject kept{{QStringLiteral("id"), QStringLiteral("x")},
                         {QStringLiteral("contents"), QString::fromStdString(contents)},
                         {QStringLiteral("tuning"), QJsonObject{{QStringLiteral("settings"), settings}}}};
  ASSERT_EQ(ui::UpdateStateFile(ui::TraceKeeper::FileBeside(trace_path()), 1 << 26, /*keep_foreign=*/true,
                                [&](QJsonObject present) {
                                  present[QStringLiteral("schema")] = QStringLiteral("headscope-trace-state-1");
                                  present[QStringLiteral("tunings")] = QJsonArray{kept};
                                  return present;
                                }),
            QString());
  Open();
  ASSERT_TRUE(WaitFor([&] { return Notice().contains(QStringLiteral("its method of-a-file is not known")); }, 3000));
  EXPECT_FALSE(Find<QPushButton>("noticeAction")->isVisible());
  EXPECT_EQ(InFile().size(), 1);
}

// The program itself, killed while it tunes.
TEST_F(KeptTuningWindowTest, WhatAKilledProgramFoundIsTakenUp) {
  QProcess process;
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert(QStringLiteral("XDG_CONFIG_HOME"), File(QStringLiteral("config")));
  environment.insert(QStringLiteral("XDG_CACHE_HOME"), File(QStringLiteral("cache")));
  environment.insert(QStringLiteral("HEADSCOPE_COMMANDS"), QStringLiteral("next-method,tune-all-heads"));
  process.setProcessEnvironment(environment);
  process.setProcessChannelMode(QProcess::ForwardedChannels);
  process.start(QStringLiteral(HEADSCOPE_PROGRAM), {trace_path()});
  ASSERT_TRUE(process.waitForStarted());
  ASSERT_TRUE(WaitFor([&] { return !InFile().isEmpty(); }, 60000));
  Open();
  EXPECT_FALSE(IsOffered()) << "the other window is at it";
  ASSERT_EQ(process.state(), QProcess::Running);
  ::kill(static_cast<pid_t>(process.processId()), SIGKILL);
  process.waitForFinished();
  Open();
  ASSERT_TRUE(IsOffered()) << Notice().toStdString();
  TakeIt();
  EXPECT_FALSE(Sweep().Tuned().empty());
  if (Sweep().CanResume()) {
    ASSERT_TRUE(Finish(Command::kSweepResume));
  }
  ASSERT_EQ(Sweep().Tuned().size(), 8U) << Sweep().Summary().toStdString();
  const ui::TuneSettings tuning = Sweep().tuning();
  const QByteArray taken_up = Exported("taken-up.csv");
  Sweep().Tune(tuning);
  ASSERT_TRUE(WaitFor([&] { return !Sweep().running(); }, 120000));
  EXPECT_EQ(Exported("at-once.csv"), taken_up);
}

}  // namespace
}  // namespace headscope::gui_test
