// SPDX-License-Identifier: Apache-2.0
// The View menu and the small texts: what is checked, what a tooltip says, and the whole screen.
#include <QAction>
#include <QComboBox>
#include <QFile>
#include <QHeaderView>
#include <QHelpEvent>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMenu>
#include <QMouseEvent>
#include <QRegularExpression>
#include <QSet>
#include <QTableView>
#include <QToolTip>
#include <cstdlib>

#include "head_table.h"
#include "shell_fixture.h"
#include "startup_watch.h"
#include "watchdog.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class ViewTest : public ShellTest {
 protected:
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForStatistics());
    ASSERT_TRUE(WaitForCanvas());
  }
  // The checked entries of a submenu of View.
  QStringList Checked(const QString& menu_title) {
    QStringList checked;
    for (const QMenu* menu : window_->findChildren<QMenu*>()) {
      if (menu->title().remove(u'&') != menu_title) continue;
      for (const QAction* action : menu->actions()) {
        if (action->isChecked()) checked.append(action->text());
      }
    }
    return checked;
  }
};

TEST_F(ViewTest, MenusMarkThePresentColoursAndMetric) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const QString colors = QStringLiteral("Colours of the map"), metrics = QStringLiteral("Colour heads by");
  EXPECT_EQ(Checked(colors), QStringList{QStringLiteral("Map colours: ") + window_->canvas()->color_map()});
  auto* box = Find<QComboBox>("colorBox");
  const QString before = box->currentText();
  box->setFocus();
  QTest::keyClick(box, Qt::Key_Down);
  ASSERT_NE(box->currentText(), before);
  EXPECT_EQ(window_->canvas()->color_map(), box->currentText());
  EXPECT_EQ(Checked(colors), QStringList{QStringLiteral("Map colours: ") + box->currentText()});
  // One that not everybody can read is called so where it is chosen, and is chosen all the same.
  QTest::keyClicks(box, QStringLiteral("tur"));
  EXPECT_EQ(window_->canvas()->color_map(), QStringLiteral("turbo"));
  EXPECT_EQ(Checked(colors), QStringList{QStringLiteral("Map colours: turbo (not colour-blind safe)")});
  EXPECT_EQ(box->currentText(), QStringLiteral("turbo (not colour-blind safe)"));
  EXPECT_LT(box->width(), box->fontMetrics().horizontalAdvance(box->currentText())) << "the bar has no room for that";

  auto* metric = Find<QComboBox>("metricBox");
  EXPECT_EQ(Checked(metrics), QStringList{QStringLiteral("Colour heads by ") + metric->currentText()});
  window_->store()->SetMetric("entropy");
  EXPECT_EQ(metric->currentData().toString(), QStringLiteral("entropy"));
  EXPECT_EQ(Checked(metrics), QStringList{QStringLiteral("Colour heads by ") + metric->currentText()});
}

TEST_F(ViewTest, TooltipOfACellGivesEveryUnit) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  const QPoint cell = *matrix->CellCentre({1, 2});
  QHelpEvent help(QEvent::ToolTip, cell, matrix->mapToGlobal(cell));
  QApplication::sendEvent(matrix, &help);
  const QString tip = QToolTip::text();
  int with_unit = 0, listed = 0;
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    // It lists the numbers of a report and no others, less the one that the colours show, which stands above.
    if (!metric.in_report) {
      EXPECT_FALSE(tip.contains(QString::fromStdString(metric.title).toHtmlEscaped() + QStringLiteral("&nbsp;")));
      continue;
    }
    if (metric.name == window_->store()->metric() || ++listed > 5 || metric.unit.empty()) continue;
    ++with_unit;
    const QString value = ui::FormatMetric(analysis::MetricValue(*window_->store()->Find({1, 2}), metric.name));
    const QRegularExpression line(QRegularExpression::escape(QString::fromStdString(metric.title).toHtmlEscaped()) +
                                  QStringLiteral("&nbsp;</td><td[^>]*>") + QRegularExpression::escape(value) +
                                  QStringLiteral("&nbsp;</td><td>") +
                                  QRegularExpression::escape(QString::fromStdString(metric.unit)));
    EXPECT_TRUE(line.match(tip).hasMatch()) << metric.name << " in " << tip.toStdString();
  }
  EXPECT_GE(with_unit, 4);
}

// A picture of the guide is of the map, not of what has just been said over it.
TEST_F(ViewTest, APictureOfTheWindowHasNoNotice) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto count_of_notice = [](const QImage& picture) {
    const QRgb ground = QColor(38, 92, 140).rgb();
    int64_t count = 0;
    for (int y = 0; y < picture.height(); ++y) {
      for (int x = 0; x < picture.width(); ++x) count += picture.pixel(x, y) == ground ? 1 : 0;
    }
    return count;
  };
  window_->commands()[Command::kCopyViewCommand]->trigger();
  ASSERT_GT(count_of_notice(window_->grab().toImage()), 1000) << "otherwise the case says nothing";
  const QString path = File(QStringLiteral("window.png"));
  qputenv("HEADSCOPE_PICTURE", path.toLocal8Bit());
  qputenv("HEADSCOPE_COMMANDS", "copy-view-command");
  ui::StartupWatch::FromEnvironment(window_.get());
  qunsetenv("HEADSCOPE_PICTURE");
  qunsetenv("HEADSCOPE_COMMANDS");
  window_->update();
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(path) && !window_->isVisible(); }));
  const QImage picture(path);
  ASSERT_EQ(picture.size(), window_->size() * window_->devicePixelRatioF());
  EXPECT_EQ(count_of_notice(picture), 0);
  // The window is drawn and written in one event, behind which it ends: nobody waits for it.
  ExpectOnlyHitsOf("QTimer");
}

TEST_F(ViewTest, StatusBarTellsAKeyBehindTheWindowFromAnUnlikelyOne) {
  constexpr int32_t kWindow = 64;
  const QString path = File(QStringLiteral("windowed.h5"));
  WriteSmallTrace(path.toStdString(), kWindow);
  OpenWindow(path);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
  window_->store()->Select({1, 0});
  ui::HeadCanvas* canvas = window_->canvas();
  canvas->SetPanelVisible(false);
  ASSERT_TRUE(WaitForCanvas());
  const auto* label = Find<QLabel>("cursorLabel");
  const auto told_of = [&](int64_t row, int64_t column) {
    canvas->GoTo(row, column);
    EXPECT_TRUE(WaitForCanvas());
    const QPointF at = canvas->PixelOf(row, column);
    QMouseEvent move(QEvent::MouseMove, at, canvas->mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
    QApplication::sendEvent(canvas, &move);
    EXPECT_TRUE(WaitFor([&] {
      return label->text().startsWith(QStringLiteral("query %1 ").arg(row)) &&
             label->text().contains(QStringLiteral("key %1 ").arg(column));
    })) << label->text().toStdString();
    return label->text();
  };
  EXPECT_TRUE(told_of(400, 400 - kWindow + 1).contains(QStringLiteral("p = ")));
  const QString behind = told_of(400, 400 - kWindow);
  EXPECT_TRUE(behind.contains(QStringLiteral("outside the model's window"))) << behind.toStdString();
  EXPECT_FALSE(behind.contains(QStringLiteral("p = "))) << behind.toStdString();
  EXPECT_TRUE(told_of(400, 401).contains(QStringLiteral("comes after the query")));
}

TEST_F(ViewTest, F11FillsTheScreenAndGivesItBack) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const QAction* action = window_->commands()[Command::kFullScreen];
  Press(Qt::Key_F11);
  EXPECT_TRUE(window_->isFullScreen());
  EXPECT_TRUE(action->isChecked());
  EXPECT_TRUE(WaitForCanvas());
  Press(Qt::Key_F11);
  EXPECT_FALSE(window_->isFullScreen());
  EXPECT_FALSE(action->isChecked());
}

TEST_F(ViewTest, ZoomAndMethodsFollowKeysWhereverTheFocusIs) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ui::HeadCanvas* canvas = window_->canvas();
  const auto scale = [&] {
    return canvas->ViewState()[QStringLiteral("view")].toObject()[QStringLiteral("scores_per_pixel")].toDouble();
  };
  Find<QTableView>("headTable")->setFocus();
  const double fitted = scale();
  Press(Qt::Key_Plus, Qt::ControlModifier);
  EXPECT_LT(scale(), fitted);
  Press(Qt::Key_Minus, Qt::ControlModifier);
  EXPECT_NEAR(scale(), fitted, fitted * 1e-9);

  const QString first = canvas->method();
  Press(Qt::Key_BracketRight);
  EXPECT_NE(canvas->method(), first);
  Press(Qt::Key_BracketLeft);
  EXPECT_EQ(canvas->method(), first);
}

TEST_F(ViewTest, PaletteHasWhatTheMapOffersBeyondTheMenus) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto choose = [&](const QString& letters, const QString& expected) {
    Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
    auto* input = Find<QLineEdit>("paletteInput");
    QTest::keyClicks(input, letters);
    const auto* list = Find<QListWidget>("paletteList");
    ASSERT_GT(list->count(), 0) << letters.toStdString();
    EXPECT_EQ(list->item(0)->text(), expected);
    QTest::keyClick(input, Qt::Key_Return);
  };
  window_->canvas()->SetScale(ui::ColorScale::kLogarithmic);
  choose(QStringLiteral("linear"), QStringLiteral("Linear scale"));
  EXPECT_EQ(window_->canvas()->scale(), ui::ColorScale::kLinear);
  EXPECT_FALSE(window_->commands()[Command::kLogScale]->isChecked());
  choose(QStringLiteral("zoom in"), QStringLiteral("Zoom in"));

  // Nothing is offered twice.
  Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  const auto* list = Find<QListWidget>("paletteList");
  QSet<QString> names;
  for (int row = 0; row < list->count(); ++row) {
    EXPECT_FALSE(names.contains(list->item(row)->text())) << list->item(row)->text().toStdString();
    names.insert(list->item(row)->text());
  }
}

TEST_F(ViewTest, NoHeadMatchesIsSaidOnlyWhileItIsTrue) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
  auto* none = Find<QLabel>("noHeadMatches");
  auto* rows = Find<QTableView>("headTable")->model();
  // Typed before the numbers are there: no head matches yet, and the table says so until the first one does.
  QTest::keyClicks(Find<QLineEdit>("headFilter"), QStringLiteral("sink_mass>=0"));
  ASSERT_TRUE(WaitForStatistics());
  EXPECT_EQ(rows->rowCount(), 8);
  EXPECT_FALSE(none->isVisible());
  Find<QLineEdit>("headFilter")->setText(QStringLiteral("layer=1 head<=1"));
  EXPECT_EQ(rows->rowCount(), 2);
  Find<QLineEdit>("headFilter")->setText(QStringLiteral("head=1.5"));
  EXPECT_TRUE(none->isVisible());
  EXPECT_EQ(none->text(), QStringLiteral("No head matches the filter."));
  Find<QLineEdit>("headFilter")->setText(QStringLiteral("sink_mas=1"));
  EXPECT_TRUE(Find<QLineEdit>("headFilter")->toolTip().contains(QStringLiteral("sink_mas")));
  EXPECT_FALSE(none->isVisible()) << "a filter that is not understood lets every head pass";
}

TEST_F(ViewTest, TheSortedColumnHasAnArrowOverItsTitle) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto* table = Find<QTableView>("headTable");
  const QHeaderView* header = table->horizontalHeader();
  // The darkness of the middle of a title's upper edge, against its neighbourhood.
  const auto has_arrow = [&](int column) {
    const QImage image = header->viewport()->grab().toImage();
    const double ratio = image.devicePixelRatio();
    const int x = header->sectionViewportPosition(column) + header->sectionSize(column) / 2;
    const auto gray = [&](int px) { return qGray(image.pixel((QPointF(px, 4) * ratio).toPoint())); };
    return std::abs(gray(x) - gray(x - 12)) > 60;
  };
  table->sortByColumn(ui::HeadTableModel::kClass, Qt::AscendingOrder);
  EXPECT_TRUE(has_arrow(ui::HeadTableModel::kClass));
  EXPECT_FALSE(has_arrow(ui::HeadTableModel::kLayer));
}

TEST_F(ViewTest, RunsTableShowsTheNoteOfARun) {
  ASSERT_NO_FATAL_FAILURE(Open());
  analysis::MethodResult run;
  run.head = {0, 0};
  run.method = "a-shape";
  run.phase = kernels::Phase::kPrefill;
  run.parameters = "sinks=4";
  run.cra_min = 0.125;
  run.cra_p5 = 0.25;
  run.note = "a-shape ran on the CPU: head_dim 80 is not supported";
  window_->state()->runs.Add(run);
  const QAbstractItemModel* rows = Find<QTableView>("runsTable")->model();
  ASSERT_EQ(rows->rowCount(), 2);
  int column = 0;
  while (column < rows->columnCount() && rows->headerData(column, Qt::Horizontal) != QStringLiteral("Note")) ++column;
  ASSERT_LT(column, rows->columnCount());
  EXPECT_EQ(rows->index(1, column).data().toString().toStdString(), run.note);
  EXPECT_TRUE(rows->index(1, column).data(Qt::ToolTipRole).toString().contains(QString::fromStdString(run.note)));
  EXPECT_EQ(rows->index(0, column).data().toString(), QString()) << "the baseline's own";
  EXPECT_EQ(rows->index(1, ui::RunsModel::kCraMin).data().toString(), QStringLiteral("0.125"));
  EXPECT_EQ(rows->index(1, ui::RunsModel::kCraFifth).data().toString(), QStringLiteral("0.250"));
  window_->ForgetRuns();
}

TEST_F(ViewTest, ACommandThatIsNotToBeHadSaysWhy) {
  OpenWindow(QString());
  int asleep = 0;
  for (const QAction* action : window_->commands().all()) {
    if (action->isEnabled()) continue;
    ++asleep;
    EXPECT_TRUE(action->toolTip().contains(QStringLiteral("Unavailable: "))) << action->objectName().toStdString();
    EXPECT_TRUE(action->statusTip().contains(QStringLiteral("Unavailable: "))) << action->objectName().toStdString();
  }
  EXPECT_GT(asleep, 10);
  window_->OpenPath(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  const QAction* run = window_->commands()[Command::kRun];
  EXPECT_TRUE(run->isEnabled());
  EXPECT_FALSE(run->toolTip().contains(QStringLiteral("Unavailable")));
}

// Qt draws no map that something opaque covers whole: what it asks for is drawn when it comes into sight again, and
// until then nobody waits for it (a measured run would, a second before each repeat).
TEST_F(ViewTest, NoFrameIsDueOfAMapThatIsCovered) {
  Open();
  window_->resize(940, 700);
  window_->commands()[Command::kSplitFour]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  window_->commands()[Command::kPalette]->trigger();
  auto* const palette = Find<QWidget>("palette");
  ui::HeadCanvas& canvas = *window_->canvas();
  ASSERT_TRUE(WaitFor([&] { return palette->isVisible() && canvas.visibleRegion().isEmpty(); }))
      << canvas.width() << " x " << canvas.height() << " behind " << palette->width() << " x " << palette->height();
  canvas.SetColorMap(QStringLiteral("magma"));
  window_->commands()[Command::kZoomIn]->trigger();
  EXPECT_TRUE(WaitFor([&] { return canvas.IsSettled() && !canvas.IsFrameDue(); }, 3000));
  EXPECT_TRUE(canvas.isVisible());
  // In sight again.
  const int64_t frames = canvas.frames_drawn();
  palette->hide();
  EXPECT_FALSE(canvas.visibleRegion().isEmpty());
  ASSERT_TRUE(WaitFor([&] { return canvas.frames_drawn() > frames; }));
  EXPECT_TRUE(WaitForCanvas());
}

}  // namespace
}  // namespace headscope::gui_test
