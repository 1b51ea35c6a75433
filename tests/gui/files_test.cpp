// SPDX-License-Identifier: Apache-2.0
// Files that come from outside: dropped on the window, damaged, cut while on show, and a disk that takes no more.
#include <sys/resource.h>

#include <QAction>
#include <QDir>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QMimeData>
#include <QUrl>
#include <QWindow>
#include <csignal>
#include <random>

#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class FilesTest : public ShellTest {
 protected:
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
  }
  QString Shown() const { return QString::fromStdString(window_->store()->trace().path); }
  QString Notice() { return Find<QLabel>("noticeText")->text(); }
  bool IsNoticeShown() { return Find<QFrame>("notice")->isVisible(); }

  // As the display server brings it: to the native window, which finds the widget below `over`. False when it refuses.
  bool Drop(const QList<QUrl>& urls, QWidget* over) {
    QMimeData data;
    data.setUrls(urls);
    const QPoint at = over->mapTo(window_.get(), over->rect().center());
    QDragEnterEvent enter(at, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(window_->windowHandle(), &enter);
    if (!enter.isAccepted()) return false;
    QDropEvent drop(at, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(window_->windowHandle(), &drop);
    return drop.isAccepted();
  }
};

TEST_F(FilesTest, DroppedTraceIsOpenedWhereverItFalls) {
  ASSERT_NO_FATAL_FAILURE(Open());
  int drops = 0;
  for (QWidget* over : {static_cast<QWidget*>(window_->canvas()), Find<QWidget>("headMatrix"),
                        Find<QWidget>("headTable"), Find<QWidget>("headFilter")}) {
    const QString other = File(QStringLiteral("dropped %1.h5").arg(++drops));
    ASSERT_TRUE(QFile::copy(trace_path(), other));
    ASSERT_TRUE(Drop({QUrl(QStringLiteral("https://example.org/a.h5")), QUrl::fromLocalFile(other)}, over))
        << over->objectName().toStdString();
    EXPECT_TRUE(WaitFor([&] { return Shown() == other; }, 5000))
        << over->objectName().toStdString() << ": " << Notice().toStdString();
  }
  EXPECT_EQ(Find<QLineEdit>("headFilter")->text(), QString()) << "an address is no filter";
  EXPECT_FALSE(Drop({QUrl(QStringLiteral("https://example.org/a.h5"))}, window_->canvas())) << "nothing to open";
}

TEST_F(FilesTest, DroppedModelFolderOpensTheCaptureDialogOnIt) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const QString folder = QStringLiteral(HEADSCOPE_SOURCE_DIR "/data/reference_model");
  ASSERT_TRUE(Drop({QUrl::fromLocalFile(folder)}, window_->canvas()));
  ASSERT_TRUE(WaitFor([&] { return window_->findChild<ui::CaptureDialog*>() != nullptr; }, 5000));
  EXPECT_TRUE(Find<ui::CaptureDialog>("captureDialog")->isVisible());
  EXPECT_EQ(QDir(Find<QLineEdit>("captureModel")->text()).canonicalPath(), QDir(folder).canonicalPath());
  auto* start = Find<QPushButton>("captureStart");
  EXPECT_TRUE(WaitFor([&] { return start->isEnabled(); })) << Find<QLabel>("captureProblem")->text().toStdString();
}

TEST_F(FilesTest, TruncatedTracesAreOneSentenceAndWhatIsOnShowStays) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const qint64 whole = QFile(trace_path()).size();
  for (const qint64 size : {qint64{0}, qint64{7}, qint64{100}, whole / 4, whole / 2, whole - 4096, whole - 1}) {
    const QString cut = File(QStringLiteral("cut-%1.h5").arg(size));
    ASSERT_TRUE(QFile::copy(trace_path(), cut) && QFile::resize(cut, size));
    window_->OpenPath(cut);
    ASSERT_TRUE(WaitFor([&] { return Notice().contains(cut); }, 5000)) << size << ": " << Notice().toStdString();
    EXPECT_TRUE(IsNoticeShown());
    EXPECT_EQ(Notice().count(u'\n'), 0) << Notice().toStdString();
    EXPECT_EQ(Shown(), trace_path());
    Press(Qt::Key_Escape);
  }
  Press(Qt::Key_Period);
  EXPECT_EQ(window_->canvas()->head(), (analysis::HeadId{0, 1}));
  EXPECT_TRUE(WaitForCanvas());
}

TEST_F(FilesTest, ChangedBytesAreRefusedOrShownAndTheWindowGoesOn) {
  ASSERT_NO_FATAL_FAILURE(Open());
  QFile good(trace_path());
  ASSERT_TRUE(good.open(QIODevice::ReadOnly));
  const QByteArray bytes = good.readAll();
  std::mt19937 random(5);
  for (int trial = 0; trial < 40; ++trial) {
    QByteArray changed = bytes;
    // Where the structure of an HDF5 file begins, a few bytes at once.
    for (int i = 0; i < 8; ++i) changed[static_cast<qsizetype>(random() % 6000)] = static_cast<char>(random() % 256);
    const QString path = File(QStringLiteral("changed-%1.h5").arg(trial));
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly) && file.write(changed) == changed.size());
    file.close();
    window_->OpenPath(path);
    ASSERT_TRUE(WaitFor([&] { return Shown() == path || Notice().contains(path); }, 10000)) << "trial " << trial;
    QFile::remove(path);
  }
  window_->OpenPath(trace_path());
  ASSERT_TRUE(WaitFor([&] { return Shown() == trace_path(); }));
  EXPECT_TRUE(WaitForStatistics());
  EXPECT_TRUE(WaitForCanvas());
}

TEST_F(FilesTest, TraceThatIsCutWhileOnShowIsReportedOnce) {
  const QString path = File(QStringLiteral("shipped.h5"));
  ASSERT_TRUE(QFile::copy(ShippedTrace(), path));
  OpenWindow(path);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
  window_->commands()[Command::kCancelWork]->trigger();
  ASSERT_TRUE(QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner));
  ASSERT_TRUE(QFile::resize(path, QFile(path).size() / 8));
  window_->store()->Select({9, 7});
  ASSERT_TRUE(WaitFor([&] { return IsNoticeShown() && Notice().contains(path); }))
      << "the head was read from a file that no longer holds it, and this is said: " << Notice().toStdString();
  window_->OpenPath(trace_path());
  ASSERT_TRUE(WaitFor([&] { return Shown() == trace_path(); }));
  EXPECT_TRUE(WaitForCanvas());
}

// No file of this process can grow beyond some bytes: writing fails as it does on a full disk, and needs no privileges.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    before_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
  void (*before_handler_)(int) = SIG_DFL;
};

TEST_F(FilesTest, ExportsOntoAFullDiskSayItAndLeaveWhatWasThere) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_TRUE(WaitForStatistics());
  const QDir target(File(QStringLiteral("exports")));
  ASSERT_TRUE(target.mkpath(QStringLiteral(".")));
  struct Export {
    Command command;
    QString name;
  };
  for (const Export& wanted : {Export{Command::kExportHeads, QStringLiteral("heads.csv")},
                               Export{Command::kExportHeads, QStringLiteral("heads.json")},
                               Export{Command::kExportHeads, QStringLiteral("heads.h5")},
                               Export{Command::kExportCanvas, QStringLiteral("head.png")}}) {
    const QString path = target.filePath(wanted.name);
    QFile old(path);
    ASSERT_TRUE(old.open(QIODevice::WriteOnly) && old.write("mine") == 4);
    old.close();
    Press(Qt::Key_Escape);
    {
      const SmallDisk disk(512);
      AnswerFileDialog(path);
      AnswerQuestion(QStringLiteral("Yes"));  // whether to replace the file
      window_->commands()[wanted.command]->trigger();
      ASSERT_TRUE(WaitFor([&] { return IsNoticeShown(); })) << wanted.name.toStdString();
    }
    EXPECT_TRUE(Notice().contains(path)) << Notice().toStdString();
    ASSERT_TRUE(old.open(QIODevice::ReadOnly));
    EXPECT_EQ(old.readAll(), QByteArray("mine")) << wanted.name.toStdString();
  }
  EXPECT_EQ(target.entryList(QDir::Files).size(), 4) << target.entryList(QDir::Files).join(u' ').toStdString();
}

TEST_F(FilesTest, SessionOfBeforeSurvivesAFullDisk) {
  ASSERT_NO_FATAL_FAILURE(Open());
  CloseWindow();
  const QString session = File(QStringLiteral("session.json"));
  const auto last_trace = [&] { return ui::Session::Load(session).last_trace; };
  ASSERT_EQ(last_trace(), trace_path());
  OpenWindow(QString());
  ASSERT_TRUE(WaitForCanvas());
  {
    const SmallDisk disk(64);
    CloseWindow();
  }
  EXPECT_EQ(last_trace(), trace_path());
}

}  // namespace
}  // namespace headscope::gui_test
