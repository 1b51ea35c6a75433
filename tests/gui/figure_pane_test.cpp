// SPDX-License-Identifier: Apache-2.0
// The pane of the analysis' figures in the real window: the picture, the file, and the command line beside it.
#include "figure_pane.h"

#include <QAction>
#include <QClipboard>
#include <QComboBox>
#include <QDockWidget>
#include <QFile>
#include <QImage>
#include <QProcess>
#include <QPushButton>
#include <QRegularExpression>
#include <string>

#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

class FigurePaneTest : public ShellTest {
 protected:
  FigurePaneTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
    ASSERT_TRUE(WaitForStatistics());
    window_->ActionNamed(QStringLiteral("go-figureDock"))->trigger();
    view_ = Find<ui::FigureView>("figureView");
    ASSERT_TRUE(WaitFor([&] { return view_->isVisible(); }));
  }
  void Choose(const char* name) {
    auto* box = Find<QComboBox>("figureChoice");
    const int index = box->findData(QLatin1String(name));
    ASSERT_GE(index, 0) << name;
    box->setCurrentIndex(index);
  }
  ui::FigureStudy& study() { return window_->state()->figures; }
  bool WaitForPicture() {
    return WaitFor([&] { return !view_->image().isNull() && !study().working(); });
  }
  static QByteArray Bytes(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  }
  // An SVG without the numbers that count what a process has drawn before.
  static std::string Drawn(const QString& path) {
    static const QRegularExpression counted(QStringLiteral("surface\\d+"));
    return QString::fromUtf8(Bytes(path)).replace(counted, QStringLiteral("surface")).toStdString();
  }

  ui::FigureView* view_ = nullptr;
};

// It stands in several panes: a key of its own would be theirs and a menu's at once.
TEST_F(FigurePaneTest, AButtonOfSeveralPanesHasNoKey) {
  ASSERT_NO_FATAL_FAILURE(Open());
  for (const char* name : {"figureCommand", "quantiseCommand"})
    EXPECT_TRUE(Find<QPushButton>(name)->shortcut().isEmpty()) << name;
}

TEST_F(FigurePaneTest, EveryFigureOfOneTraceIsShownOnEitherGround) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->ActionNamed(QStringLiteral("theme-light"))->trigger();
  for (const ui::FigureChoice& choice : study().choices()) {
    if (choice.least_traces > 1) continue;
    ASSERT_NO_FATAL_FAILURE(Choose(choice.name.c_str()));
    ASSERT_TRUE(WaitForPicture()) << choice.name << ": " << study().error().toStdString();
    const QSizeF size = view_->image().deviceIndependentSize();
    EXPECT_NEAR(size.width(), view_->width(), 2) << choice.name;
    EXPECT_NEAR(size.height(), view_->height(), 2) << choice.name;
  }
  const QRgb light = view_->image().pixel(1, 1);
  EXPECT_GT(qGray(light), 192);
  window_->ActionNamed(QStringLiteral("theme-dark"))->trigger();
  ASSERT_TRUE(WaitFor([&] { return view_->image().pixel(1, 1) != light; }));
  EXPECT_LT(qGray(view_->image().pixel(1, 1)), 64);
}

TEST_F(FigurePaneTest, ASavedFigureIsTheOneOfTheCopiedCommand) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(Choose("sparsity"));
  Find<QComboBox>("figureHeads")->setCurrentIndex(2);  // the open head
  ASSERT_TRUE(WaitForPicture());
  const QString saved = File(QStringLiteral("window.svg"));
  AnswerFileDialog(saved);
  QTest::mouseClick(Find<QPushButton>("figureSave"), Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(saved) && !study().working(); }));
  QTest::mouseClick(Find<QPushButton>("figureCommand"), Qt::LeftButton);
  QStringList arguments = QProcess::splitCommand(QApplication::clipboard()->text());
  ASSERT_EQ(arguments.takeFirst(), QStringLiteral("headscope"));
  QProcess process;
  process.setWorkingDirectory(folder_.path());
  process.start(QStringLiteral(HEADSCOPE_PROGRAM), arguments);
  ASSERT_TRUE(process.waitForFinished(60000));
  ASSERT_EQ(process.exitCode(), 0) << process.readAllStandardError().toStdString();
  EXPECT_FALSE(Bytes(saved).isEmpty());
  EXPECT_EQ(Drawn(saved), Drawn(File(QStringLiteral("sparsity.svg")))) << arguments.join(u' ').toStdString();
  // Its numbers, too.
  const QString numbers = File(QStringLiteral("window.csv"));
  study().Save(numbers);
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(numbers); }));
  EXPECT_TRUE(Bytes(numbers).startsWith("panel,series,x,y,trace,model,written_at,version\n"));
  EXPECT_TRUE(Bytes(numbers).contains(trace_path().toUtf8()));
}

TEST_F(FigurePaneTest, AFigureOfManyPanelsIsSavedOnAPageWithRoomForThem) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(Choose("pattern-recall"));
  ASSERT_TRUE(WaitForPicture());
  const QString saved = File(QStringLiteral("many.png"));
  study().Save(saved);
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(saved) && !study().working(); })) << study().error().toStdString();
  const QImage page(saved);
  EXPECT_EQ(page.width(), 2000);
  EXPECT_GT(page.height(), 960);
}

TEST_F(FigurePaneTest, APaneThatIsEnlargedIsPaintedAnewAndPutBack) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(Choose("memory"));
  ASSERT_TRUE(WaitForPicture());
  const int before = view_->image().width();
  auto* dock = Find<QDockWidget>("figureDock");
  auto* enlarge = Find<QPushButton>("figureEnlarge");
  QTest::mouseClick(enlarge, Qt::LeftButton);
  ASSERT_TRUE(dock->isFloating());
  ASSERT_TRUE(WaitFor([&] { return view_->image().width() > before; }));
  EXPECT_EQ(enlarge->text(), QStringLiteral("Dock again"));
  EXPECT_TRUE(WaitFor([&] { return dock->screen()->availableGeometry().contains(dock->frameGeometry()); }))
      << "its place at the window's lower edge has no room for it";
  QTest::mouseClick(enlarge, Qt::LeftButton);
  EXPECT_FALSE(dock->isFloating());
}

TEST_F(FigurePaneTest, AFigureOfTwoTracesSaysWhatItNeedsAndIsMadeBesideAnother) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(Choose("index-transfer"));
  EXPECT_FALSE(Find<QPushButton>("figureSave")->isEnabled());
  EXPECT_TRUE(Find<QPushButton>("figureSave")->toolTip().contains(QStringLiteral("compares traces")));
  WriteSmallTrace(File(QStringLiteral("other.h5")).toStdString(), 0, "another");
  AnswerFileDialog(File(QStringLiteral("other.h5")));
  window_->ActionNamed(QStringLiteral("compare-trace"))->trigger();
  ASSERT_TRUE(WaitForPicture()) << study().error().toStdString();
}

}  // namespace
}  // namespace headscope::gui_test
