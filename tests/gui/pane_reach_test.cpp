// SPDX-License-Identifier: Apache-2.0
// How a person gets to a pane and reads it where there is little room: names typed into the palette, the keyboard
// alone, tabs and numbers of a small window, and what is written in faint ink.
#include <QCheckBox>
#include <QClipboard>
#include <QDir>
#include <QDockWidget>
#include <QHelpEvent>
#include <QJsonArray>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMainWindow>
#include <QPushButton>
#include <QStatusBar>
#include <QTabBar>
#include <QToolBar>
#include <QToolButton>
#include <QToolTip>
#include <QTreeWidget>
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "allowed.h"
#include "analysis/types/ground.h"
#include "command_line.h"
#include "command_palette.h"
#include "cut_label.h"
#include "error_ink.h"
#include "progress_strip.h"
#include "reach_fixture.h"
#include "theme.h"
#include "trace_info.h"
#include "welcome_page.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class PaneReachTest : public ShellTest {
 protected:
  PaneReachTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
  }
};

// The menu's switches bear the panes' bare names: found first, they took the pane away that was asked for.
TEST_F(PaneReachTest, APanesNameTypedIntoThePaletteGoesThere) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const QList<QDockWidget*> docks = window_->findChildren<QDockWidget*>();
  ASSERT_GE(docks.size(), 10);
  for (QDockWidget* dock : docks) {
    const std::string title = dock->windowTitle().toStdString();
    Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
    auto* input = Find<QLineEdit>("paletteInput");
    input->setText(dock->windowTitle().toLower());
    const auto* list = Find<QListWidget>("paletteList");
    ASSERT_GT(list->count(), 0) << title;
    EXPECT_EQ(list->item(0)->text(), QStringLiteral("Go to %1").arg(dock->windowTitle()));
    QTest::keyClick(input, Qt::Key_Return);
    EXPECT_TRUE(WaitFor([&] { return dock->isVisible() && !dock->visibleRegion().isEmpty(); }, 3000)) << title;
    EXPECT_TRUE(dock->isAncestorOf(window_->focusWidget())) << title << " has no place for the keyboard";
  }
}

// One letter begins several categories and is no choice of one; what a long list leaves out is counted.
TEST_F(PaneReachTest, ThePaletteCountsWhatItDoesNotList) {
  QWidget window;
  window.resize(800, 600);
  QList<QAction*> actions;
  for (int i = 0; i < 230; ++i) actions.append(new QAction(QStringLiteral("Do task %1").arg(i), &window));
  int opened = 0;
  ui::CommandPalette palette(&window);
  palette.Open({{QStringLiteral("task"), actions}},
               {{QStringLiteral("trade: T"), {}, QStringLiteral("tool"), [&] { ++opened; }}});
  auto* input = palette.findChild<QLineEdit*>(QStringLiteral("paletteInput"));
  const auto* list = palette.findChild<QListWidget*>(QStringLiteral("paletteList"));
  ASSERT_EQ(list->count(), 201);
  EXPECT_EQ(list->item(200)->text(), QStringLiteral("31 more match: type more letters"));
  EXPECT_EQ(list->item(200)->flags(), Qt::NoItemFlags);
  for (int i = 0; i < 40; ++i) QTest::keyClick(input, Qt::Key_PageDown);
  for (int i = 0; i < 5; ++i) QTest::keyClick(input, Qt::Key_Down);
  EXPECT_EQ(list->currentRow(), 199) << "the last line cannot be chosen";
  input->setText(QStringLiteral("ta:"));
  EXPECT_EQ(list->item(list->count() - 1)->text(), QStringLiteral("30 more match: type more letters"));
  input->setText(QStringLiteral("t:"));
  ASSERT_EQ(list->count(), 1) << "the letters of a name that has them both";
  EXPECT_EQ(list->item(0)->text(), QStringLiteral("trade: T"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_EQ(opened, 1);
}

// A command that cannot be had was not found at all, as if there were none.
TEST_F(PaneReachTest, ThePaletteSaysWhyACommandCannotBeHad) {
  QWidget window;
  window.resize(800, 600);
  int run = 0;
  QList<QAction*> actions = {new QAction(QStringLiteral("Picture of Maps…"), &window),
                             new QAction(QStringLiteral("Picture of Heads…"), &window)};
  for (const QAction* action : actions) QObject::connect(action, &QAction::triggered, [&] { ++run; });
  ui::Allow(actions[0], false, QStringLiteral("its maps are not made yet"));
  ui::CommandPalette palette(&window);
  palette.Open({{QStringLiteral("picture"), actions}}, {});
  auto* input = palette.findChild<QLineEdit*>(QStringLiteral("paletteInput"));
  const auto* list = palette.findChild<QListWidget*>(QStringLiteral("paletteList"));
  EXPECT_EQ(list->count(), 1) << "what can be had, while nothing is asked for";
  input->setText(QStringLiteral("picture of"));
  ASSERT_EQ(list->count(), 2);
  EXPECT_EQ(list->item(0)->text(), QStringLiteral("Picture of Heads"));
  EXPECT_EQ(list->item(1)->text(), QStringLiteral("Picture of Maps – unavailable: its maps are not made yet"));
  input->setText(QStringLiteral("maps"));
  ASSERT_EQ(list->count(), 1);
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_EQ(run, 0);
  ui::Allow(actions[0], true, {});
  palette.Open({{QStringLiteral("picture"), actions}}, {});
  input->setText(QStringLiteral("maps"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_EQ(run, 1);
}

// One letter listed every one of them, in the menus' order.
TEST_F(PaneReachTest, WhatCannotBeHadIsRankedAndEndsAtTheSameLine) {
  QWidget window;
  window.resize(800, 600);
  QList<QAction*> actions;
  for (int i = 0; i < 230; ++i) {
    actions.append(new QAction(QStringLiteral("Do task %1").arg(i), &window));
    ui::Allow(actions.back(), i < 10, QStringLiteral("nothing is open"));
  }
  actions.append(new QAction(QStringLiteral("Task"), &window));
  ui::Allow(actions.back(), false, QStringLiteral("nothing is open"));
  ui::CommandPalette palette(&window);
  palette.Open({{QStringLiteral("task"), actions}}, {});
  auto* input = palette.findChild<QLineEdit*>(QStringLiteral("paletteInput"));
  const auto* list = palette.findChild<QListWidget*>(QStringLiteral("paletteList"));
  input->setText(QStringLiteral("task"));
  ASSERT_EQ(list->count(), 201);
  EXPECT_EQ(list->item(9)->text(), QStringLiteral("Do task 9")) << "what can be had comes first";
  EXPECT_EQ(list->item(10)->text(), QStringLiteral("Task – unavailable: nothing is open"));
  EXPECT_EQ(list->item(199)->flags(), Qt::NoItemFlags);
  EXPECT_EQ(list->item(200)->text(), QStringLiteral("31 more match: type more letters"));
}

// One long line made all lines as long, and their shortcuts and categories were out of sight.
TEST_F(PaneReachTest, ALongLineOfThePaletteLeavesTheShortcutsInSight) {
  QWidget window;
  window.resize(800, 600);
  QList<QAction*> actions = {new QAction(QStringLiteral("Copy runs"), &window),
                             new QAction(QStringLiteral("Copy difference as command line"), &window)};
  ui::Allow(actions[1], false, QString(300, u'x'));
  ui::CommandPalette palette(&window);
  window.show();
  palette.Open({{QStringLiteral("edit"), actions}}, {});
  palette.findChild<QLineEdit*>(QStringLiteral("paletteInput"))->setText(QStringLiteral("copy"));
  const auto* list = palette.findChild<QListWidget*>(QStringLiteral("paletteList"));
  ASSERT_EQ(list->count(), 2);
  QTest::qWait(20);
  for (int i = 0; i < 2; ++i) EXPECT_LE(list->visualItemRect(list->item(i)).right(), list->viewport()->width()) << i;
}

// It went to a row of tabs, so that the next arrow changed the pane.
TEST_F(PaneReachTest, ThePaletteGivesTheKeyboardBack) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto* input = Find<QLineEdit>("paletteInput");
  const auto open = [&] {
    Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
    return WaitFor([&] { return window_->focusWidget() == input; }, 3000);
  };
  for (QWidget* before :
       {static_cast<QWidget*>(window_->canvas()), static_cast<QWidget*>(Find<QTreeWidget>("traceInfo"))}) {
    window_->ActionNamed(QStringLiteral("go-infoDock"))->trigger();
    QTest::qWait(50);
    before->setFocus();
    ASSERT_TRUE(open());
    QTest::keyClick(input, Qt::Key_Escape);
    EXPECT_EQ(window_->focusWidget(), before);
    ASSERT_TRUE(open());
    input->setText(QStringLiteral("funneling"));
    QTest::keyClick(input, Qt::Key_Return);
    EXPECT_EQ(window_->canvas()->method(), QStringLiteral("pyramid-kv"));
    EXPECT_EQ(window_->focusWidget(), before);
  }
  // What a command gives it to has it.
  window_->canvas()->setFocus();
  ASSERT_TRUE(open());
  input->setText(QStringLiteral("find token"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_NE(window_->focusWidget(), window_->canvas());
}

// Who went to another window and came back had the keyboard in a row of tabs.
TEST_F(PaneReachTest, ThePaletteGivesTheKeyboardBackWhenItsWindowIsLeft) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto* input = Find<QLineEdit>("paletteInput");
  window_->canvas()->setFocus();
  Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_TRUE(WaitFor([&] { return window_->focusWidget() == input && window_->isActiveWindow(); }, 3000));
  {
    QWidget other;
    other.resize(200, 100);
    other.show();
    other.activateWindow();
    ASSERT_TRUE(WaitFor([&] { return other.isActiveWindow(); }, 3000));
    EXPECT_FALSE(input->isVisible());
  }
  window_->activateWindow();
  ASSERT_TRUE(WaitFor([&] { return window_->isActiveWindow(); }, 3000));
  EXPECT_EQ(window_->focusWidget(), window_->canvas());
}

// "a-very-long-name-of-a-trac" told no trace of a series from another.
TEST(WelcomePageTest, ALongNameOfARecentTraceKeepsItsEnd) {
  QMainWindow window;
  window.resize(1000, 700);
  auto* sibling = new QWidget(&window);
  window.setCentralWidget(sibling);
  ui::WelcomePage page(&window);
  window.show();
  const QString name = QStringLiteral("a & ") + QString(150, u'b') + QStringLiteral("-16K.h5");
  page.Open(sibling, {QStringLiteral("/traces/") + name}, {}, {});
  const auto links = page.findChildren<QPushButton*>();
  const auto recent = std::ranges::find_if(links, [](const auto* one) { return one->text().startsWith(u'a'); });
  ASSERT_NE(recent, links.end());
  EXPECT_TRUE((*recent)->text().startsWith(QStringLiteral("a && b"))) << (*recent)->text().toStdString();
  EXPECT_TRUE((*recent)->text().endsWith(QStringLiteral("b-16K.h5")));
  EXPECT_GE((*recent)->width(), (*recent)->fontMetrics().horizontalAdvance((*recent)->text())) << "it is cut";
  EXPECT_TRUE((*recent)->toolTip().contains(name.toHtmlEscaped())) << "the whole of it";
}

TEST(TraceInfoTest, OneHeadIsOne) {
  QObject parent;
  ui::HeadStore store(&parent);
  ui::TraceInfo info(&store);
  ui::TraceSummary trace;
  trace.heads = {{2, 0}};
  store.SetTrace(std::move(trace));
  const QTreeWidgetItem* const last = info.topLevelItem(info.topLevelItemCount() - 1);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->text(1), QStringLiteral("1 head in 1 layer"));
}

TEST_F(PaneReachTest, AMethodIsFoundByAWordOfItsPaper) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  auto* input = Find<QLineEdit>("paletteInput");
  input->setText(QStringLiteral("funneling"));
  const auto* list = Find<QListWidget>("paletteList");
  ASSERT_GT(list->count(), 0);
  EXPECT_EQ(list->item(0)->text(), QStringLiteral("Method: PyramidKV (decode)"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_EQ(window_->canvas()->method(), QStringLiteral("pyramid-kv"));
}

TEST_F(PaneReachTest, TheTracePaneIsReadAndCopiedByKeys) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->ActionNamed(QStringLiteral("go-infoDock"))->trigger();
  auto* facts = Find<ui::TraceInfo>("traceInfo");
  ASSERT_TRUE(WaitFor([&] { return window_->focusWidget() == facts; }, 3000));
  ASSERT_NE(facts->currentItem(), nullptr) << "a line to stand on";
  QTest::keyClick(facts, Qt::Key_End);
  QTest::keyClick(facts, Qt::Key_C, Qt::ControlModifier);
  EXPECT_EQ(QApplication::clipboard()->text(), QStringLiteral("8 heads in 2 layers"));
  QTest::keyClick(facts, Qt::Key_Home);
  QTest::keyClick(facts, Qt::Key_C, Qt::ControlModifier);
  EXPECT_EQ(QApplication::clipboard()->text(), QStringLiteral("small.h5"));
  // The line is seen: its ground is that of what is selected.
  const QRect line = facts->visualItemRect(facts->currentItem());
  const QColor ground = facts->viewport()->grab().toImage().pixelColor(line.right() - 3, line.center().y());
  const QColor highlight = facts->palette().color(QPalette::Highlight);
  EXPECT_LE(std::abs(ground.red() - highlight.red()) + std::abs(ground.green() - highlight.green()) +
                std::abs(ground.blue() - highlight.blue()),
            12)
      << ground.name().toStdString();
}

// Backwards from its first button the keyboard went under the page, to the map's panel, and never to the links.
TEST_F(PaneReachTest, TabGoesRoundTheWelcomePageInTheOrderInWhichItIsRead) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Press(Qt::Key_F1);
  auto* welcome = Find<ui::WelcomePage>("welcomePage");
  auto* tour = Find<QPushButton>("startTour");
  ASSERT_TRUE(WaitFor([&] { return tour->hasFocus(); }, 3000));
  const auto all = welcome->findChildren<QPushButton*>();
  const auto num_stops = std::count_if(all.begin(), all.end(), [](const auto* one) { return one->isVisible(); });
  for (const bool forward : {true, false}) {
    std::set<const QWidget*> visited;
    int turns = 0, before = tour->mapTo(welcome, QPoint()).y();
    for (int step = 0; step < num_stops; ++step) {
      QWidget* const present = window_->focusWidget();
      ASSERT_TRUE(welcome->isAncestorOf(present));
      forward ? QTest::keyClick(present, Qt::Key_Tab) : QTest::keyClick(present, Qt::Key_Backtab, Qt::ShiftModifier);
      visited.insert(window_->focusWidget());
      const int y = window_->focusWidget()->mapTo(welcome, QPoint()).y();
      turns += (forward ? y < before : y > before) ? 1 : 0;
      before = y;
    }
    EXPECT_EQ(visited.size(), static_cast<size_t>(num_stops));
    EXPECT_TRUE(tour->hasFocus()) << "once round";
    EXPECT_EQ(turns, 1) << "from one end to the other";
  }
  QTest::keyClick(window_->focusWidget(), Qt::Key_Escape);
  EXPECT_TRUE(WaitFor([&] { return !welcome->isVisible() && window_->canvas()->hasFocus(); }))
      << "the keyboard stayed with " << window_->focusWidget()->objectName().toStdString();
}

TEST_F(PaneReachTest, TheTourIsWalkedWithEnter) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Press(Qt::Key_F1);
  auto* welcome = Find<ui::WelcomePage>("welcomePage");
  ASSERT_TRUE(WaitFor([&] { return Find<QPushButton>("startTour")->hasFocus(); }, 3000));
  QTest::keyClick(Find<QPushButton>("startTour"), Qt::Key_Return);
  for (int step = 0; step < std::ssize(ui::WelcomePage::Tour()); ++step) {
    EXPECT_EQ(welcome->tour_step(), step);
    const auto* text = Find<QLabel>("tourText");
    EXPECT_GE(text->height(), text->heightForWidth(text->width())) << "step " << step << " is cut off";
    QTest::keyClick(Find<QPushButton>("tourNext"), step % 2 == 0 ? Qt::Key_Enter : Qt::Key_Return);
  }
  EXPECT_FALSE(welcome->isVisible());
}

TEST_F(PaneReachTest, ASmallWindowCutsNoTabAndNoNumber) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->showNormal();
  for (const QSize size : {QSize(1280, 800), QSize(1024, 700), QSize(800, 600)}) {
    window_->resize(size);
    QTest::qWait(500);  // the panes take their shares when the window has come to rest
    int bars = 0;
    for (const QTabBar* bar : window_->findChildren<QTabBar*>(QString(), Qt::FindDirectChildrenOnly)) {
      if (!bar->isVisible()) continue;
      ++bars;
      for (int tab = 0; tab < bar->count(); ++tab) {
        EXPECT_GE(bar->tabRect(tab).width(), bar->fontMetrics().horizontalAdvance(bar->tabText(tab)))
            << bar->tabText(tab).toStdString() << " at " << size.width();
      }
      EXPECT_TRUE(bar->rect().intersects(bar->tabRect(bar->currentIndex()))) << "the tab on show is in sight";
    }
    EXPECT_GE(bars, 3);
  }
  auto* chart = Find<ui::MassChart>("massChart");
  const auto width_of = [chart](const QStringList& texts) {
    return chart->fontMetrics().horizontalAdvance(texts.join(QString())) + 8 * (texts.size() - 1) + 4;
  };
  const QStringList small = chart->ShownNumbers();
  ASSERT_FALSE(small.isEmpty());
  EXPECT_LE(width_of(small), chart->width() + 1) << small.join(u' ').toStdString();
  EXPECT_TRUE(small.front().startsWith(QStringLiteral("min ")));
  window_->resize(1600, 950);
  ASSERT_TRUE(WaitFor([&] { return chart->width() > 300; }, 5000));
  EXPECT_EQ(chart->ShownNumbers().size(), 3);
  EXPECT_EQ(chart->ShownNumbers().front().size(), QStringLiteral("min 0.000").size());
}

// Words that said nothing: "Heads by", "Map in viridis", "Mean" alone, "Colours as the system", "1 blocks", and numbers
// of slashes and components without a unit.
TEST_F(PaneReachTest, ControlsAreCalledByWhatTheyChange) {
  ASSERT_NO_FATAL_FAILURE(Open());
  QStringList labels;
  for (const QLabel* label : Find<QToolBar>("toolBar")->findChildren<QLabel*>()) labels.append(label->text().trimmed());
  for (const char* wanted : {"Colour heads by", "Map colours"})
    EXPECT_TRUE(labels.contains(QLatin1String(wanted))) << labels.join(u'|').toStdString();
  EXPECT_EQ(window_->commands()[Command::kMeanReduction]->iconText(), QStringLiteral("Mean per pixel"));
  EXPECT_EQ(window_->commands()[Command::kThemeSystem]->text().remove(u'&'), QStringLiteral("System colours"));
  std::map<std::string, std::set<std::string>> units;
  for (const kernels::MethodSpec& method : window_->canvas()->methods()) {
    for (const kernels::ParameterSpec& parameter : method.parameters)
      units[parameter.name].insert(kernels::UnitText(parameter));
  }
  EXPECT_EQ(units["n_slash"], std::set<std::string>{"slashes"});
  EXPECT_TRUE(units["r"].contains("components"));
  EXPECT_FALSE(units["r"].contains(""));
  EXPECT_EQ(kernels::UnitText({.unit = kernels::Unit::kBlocks}, /*one=*/true), "block");
}

// WCAG 2.1: the contrast of two colours, 1 to 21; 4.5 is the least for text.
double Contrast(const QColor& a, const QColor& b) {
  const auto luminance = [](const QColor& color) {
    const auto light = [](double share) {
      return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * light(color.redF()) + 0.7152 * light(color.greenF()) + 0.0722 * light(color.blueF());
  };
  const double one = luminance(a) + 0.05, other = luminance(b) + 0.05;
  return std::max(one, other) / std::min(one, other);
}

// Of any pixel, with the ground.
double MostContrast(const QImage& image, const QColor& ground) {
  double most = 0;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) most = std::max(most, Contrast(image.pixelColor(x, y), ground));
  }
  return most;
}

TEST(ProgressStripTest, HasRoomForItsTextBeforeAnyEventIsHandled) {
  QMainWindow window;
  auto* strip = new ui::ProgressStrip(&window);
  window.statusBar()->addWidget(new QLabel(&window), 1);
  window.statusBar()->addPermanentWidget(strip);
  window.resize(900, 300);
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
  const auto* text = strip->findChild<QLabel*>(QStringLiteral("progressText"));
  strip->Begin(QStringLiteral("work"), [] {});
  for (const char* stage : {"C", "Computing the statistics of all heads of the trace"}) {
    ui::ProgressReport report;
    report.stage = stage;
    strip->Update(QStringLiteral("work"), report);
    EXPECT_GE(text->width(), text->sizeHint().width()) << stage;
  }
}

TEST(ProgressStripTest, AStageBeginsLikeASentence) {
  ui::ProgressReport report;
  report.stage = "loading model";  // as a terminal has it
  EXPECT_EQ(ui::DescribeProgress(report), QStringLiteral("Loading model"));
  report.stage.clear();
  EXPECT_EQ(ui::DescribeProgress(report), QString());
}

// Status bar and Text's title ended within a letter, and a number looked like a shorter one.
TEST(CutLabelTest, ATextWithoutRoomEndsInAnEllipsis) {
  const QString text = QStringLiteral("query 4089 →  key 1234567890     p = 0.123456");
  ui::CutLabel label;
  label.setContentsMargins(8, 0, 8, 0);
  label.setText(text);
  label.resize(label.sizeHint());
  EXPECT_FALSE(label.IsCut());
  const int whole = label.width();
  QLabel plain(text);
  plain.setContentsMargins(8, 0, 8, 0);
  plain.resize(label.size());
  EXPECT_EQ(label.grab().toImage(), plain.grab().toImage());
  label.resize(whole / 2, label.height());
  ASSERT_TRUE(label.IsCut());
  plain.resize(label.size());
  plain.setText(label.fontMetrics().elidedText(text, Qt::ElideRight, label.width() - 16));
  ASSERT_TRUE(plain.text().endsWith(QChar(0x2026)));
  EXPECT_EQ(label.grab().toImage(), plain.grab().toImage());
  QHelpEvent asked(QEvent::ToolTip, label.rect().center(), label.mapToGlobal(label.rect().center()));
  label.show();
  QApplication::sendEvent(&label, &asked);
  EXPECT_TRUE(QToolTip::text().contains(QStringLiteral("0.123456"))) << QToolTip::text().toStdString();
  QToolTip::hideText();
}

TEST(ThemeContrast, AllInkCanBeReadOnEveryGround) {
  ASSERT_NEAR(Contrast(Qt::white, Qt::black), 21, 1e-9);
  for (const QPalette& palette : {ui::LightPalette(), ui::DarkPalette()}) {
    for (const QPalette::ColorRole ground : {QPalette::Window, QPalette::Base, QPalette::AlternateBase}) {
      for (const QPalette::ColorRole ink : {QPalette::Text, QPalette::PlaceholderText, QPalette::Link})
        EXPECT_GE(Contrast(palette.color(ink), palette.color(ground)), 4.5)
            << "ink " << ink << " on ground " << ground << ", " << palette.color(ground).name().toStdString();
    }
    for (const QPalette::ColorRole ground : {QPalette::Window, QPalette::Base, QPalette::AlternateBase})
      EXPECT_GE(Contrast(ui::ErrorInk(palette), palette.color(ground)), 4.5) << "an error's ink on ground " << ground;
    EXPECT_GE(Contrast(palette.color(QPalette::HighlightedText), palette.color(QPalette::Highlight)), 4.5);
    EXPECT_GE(Contrast(palette.color(QPalette::ButtonText), palette.color(QPalette::Button)), 4.5);
  }
}

// Of the boxes that a capture may also record, a dark window showed the words alone.
TEST(ThemeContrast, AnEmptyCheckBoxIsSeen) {
  const QPalette before = QApplication::palette();
  for (const QPalette& palette : {ui::LightPalette(), ui::DarkPalette()}) {
    QApplication::setPalette(palette);
    QCheckBox box;
    box.resize(40, 40);
    box.show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(&box));
    EXPECT_GE(MostContrast(box.grab().toImage(), palette.color(QPalette::Window)), 3)
        << palette.color(QPalette::Window).name().toStdString();
  }
  QApplication::setPalette(before);
}

// Qt's own arrows are black, also on a dark ground: nobody saw that a narrow window has more tools.
TEST(ThemeContrast, TheArrowsOfAToolBarThatIsTooNarrowAreSeen) {
  const QPalette before = QApplication::palette();
  for (const QPalette& palette : {ui::LightPalette(), ui::DarkPalette()}) {
    QApplication::setPalette(palette);
    QMainWindow window;
    auto* bar = window.addToolBar(QStringLiteral("tools"));
    bar->setToolButtonStyle(Qt::ToolButtonTextOnly);
    for (int i = 0; i < 30; ++i) bar->addAction(QStringLiteral("a tool with a long name"));
    window.resize(500, 200);
    window.show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
    auto* more = bar->findChild<QToolButton*>(QStringLiteral("qt_toolbar_ext_button"));
    ASSERT_NE(more, nullptr);
    ASSERT_TRUE(more->isVisible());
    EXPECT_GE(MostContrast(more->grab().toImage(), palette.color(QPalette::Window)), 4.5)
        << palette.color(QPalette::Window).name().toStdString();
  }
  QApplication::setPalette(before);
}

// The map's ground and the panel's are the window's, whatever pictures in files are drawn on.
TEST_F(PaneReachTest, MapAndPanelAreLightInALightWindowAndDarkInADarkOne) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ui::HeadCanvas* canvas = window_->canvas();
  const auto color_of = [](const analysis::Rgb& color) { return QColor(color.red, color.green, color.blue); };
  const auto paper = [canvas] {
    const QImage image = canvas->grabFramebuffer();
    return image.pixelColor(1, image.height() - 2);
  };
  const auto panel_is_light = [canvas] {
    const QRectF control = canvas->PanelControl(QStringLiteral("run"));
    const QImage image = canvas->grabFramebuffer();
    const double ratio = canvas->devicePixelRatioF();
    return image.pixelColor((control.topLeft() * ratio).toPoint() + QPoint(-4, 0)).lightness() > 160;
  };
  ASSERT_FALSE(canvas->PanelControl(QStringLiteral("run")).isNull());
  for (const bool light : {true, false, true}) {
    window_->commands()[light ? Command::kThemeLight : Command::kThemeDark]->trigger();
    const QColor expected = color_of((light ? analysis::kLightGround : analysis::kDarkGround).paper);
    EXPECT_TRUE(WaitFor([&] { return paper() == expected; }, 5000)) << paper().name().toStdString();
    EXPECT_EQ(panel_is_light(), light);
  }
}

// A trace that was named from its own folder was named so in the command, which no other folder knows; a dash in front
// made an option of it.
TEST_F(ReachTest, ACopiedCommandFindsATraceThatWasNamedFromItsFolder) {
  const QString name = QStringLiteral("-it's \"odd\" é.h5");
  ASSERT_TRUE(QFile::copy(trace_path(), File(name)));
  const QString folder = QDir::currentPath();
  ASSERT_TRUE(QDir::setCurrent(folder_.path()));
  OpenWindow(name);
  const bool opened = WaitForCanvas();
  EXPECT_TRUE(QDir::setCurrent(folder));
  ASSERT_TRUE(opened);
  window_->commands()[Command::kCopyHeadsCommand]->trigger();
  const QString command = QApplication::clipboard()->text();
  EXPECT_TRUE(command.contains(ui::ShellQuoted(File(name)))) << command.toStdString();
  const QJsonObject told = RunInShell(command, File(QStringLiteral("heads.json")));
  EXPECT_EQ(told[QLatin1String("heads")].toArray().size(), 8);
}

// The notice over the map had no end either.
TEST_F(ReachTest, ALongCommandIsCopiedWholeAndSaidShort) {
  Open();
  std::vector<analysis::HeadId> many(500, analysis::HeadId{1, 2});
  Q_EMIT window_->state()->offers.HeadsMenuWanted(many, {});
  auto* copy = window_->findChild<QAction*>(QStringLiteral("copyHeads"));
  ASSERT_NE(copy, nullptr);
  copy->trigger();
  EXPECT_GT(QApplication::clipboard()->text().size(), 1000);
  EXPECT_LT(Find<QLabel>("noticeText")->text().size(), 320);
  EXPECT_TRUE(Find<QLabel>("noticeText")->text().endsWith(QChar(0x2026)));
  while (QWidget* popup = QApplication::activePopupWidget()) popup->close();
}

// The style's cross is dark, and stood on a dark ground.
TEST_F(PaneReachTest, ANoticesCrossStandsOutFromItsGround) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  window_->commands()[Command::kCopyHeadsCommand]->trigger();
  auto* close = Find<QToolButton>("noticeClose");
  ASSERT_TRUE(WaitFor([&] { return close->isVisible(); }));
  const QImage shown = close->grab().toImage();
  int light = 0;
  for (int y = 0; y < shown.height(); ++y) {
    for (int x = 0; x < shown.width(); ++x) light += qGray(shown.pixel(x, y)) > 200 ? 1 : 0;
  }
  EXPECT_GT(light, 8);
  EXPECT_LT(light, shown.width() * shown.height() / 3);
}

}  // namespace
}  // namespace headscope::gui_test
