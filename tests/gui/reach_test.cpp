// SPDX-License-Identifier: Apache-2.0
// The panes around the map that follow its query, sweeps over all heads, and what leaves the window: command lines that
// give the same numbers, pictures with real letters.
#include <QAbstractItemModel>
#include <QClipboard>
#include <QDockWidget>
#include <QFile>
#include <QHeaderView>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QListWidget>
#include <QProcess>
#include <QTableView>
#include <QTableWidget>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "head_table.h"
#include "lost_pane.h"
#include "maps_pane.h"
#include "reach_fixture.h"
#include "shown_text.h"
#include "trade_off_pane.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

TEST_F(ReachTest, LostKeysAreListedAndAClickShowsOne) {
  Open();
  Use("streaming-llm", "n_sink=4,n_local=16,n_dilated=0");
  Raise("lostDock");
  const int64_t row = 400;
  window_->state()->focus.Choose(row);
  auto* table = Find<QTableWidget>("lostTable");
  auto* title = Find<QLabel>("lostTitle");
  ASSERT_TRUE(
      WaitFor([&] { return table->rowCount() == 10 && title->text().startsWith(QStringLiteral("Query 400 ")); }));
  // The most probable of all keys that the method leaves out, by plain scores.
  double most = 0;
  int64_t key = -1;
  for (int64_t column = 4; column <= row - 16; ++column) {
    const double p = workbench_->ExactScore({0, 2}, row, column).probability;
    if (p <= most) continue;
    most = p;
    key = column;
  }
  EXPECT_EQ(table->item(0, 0)->text(), QString::number(key));
  EXPECT_EQ(table->item(0, 1)->text(), QStringLiteral("“ word%1”").arg(key));
  EXPECT_NEAR(table->item(0, 2)->text().toDouble(), most, 1e-3 * most);
  QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualItemRect(table->item(0, 0)).center());
  ASSERT_TRUE(WaitForCanvas());
  const QPointF at = canvas_->PixelOf(row, key);
  EXPECT_TRUE(QRectF(canvas_->rect()).contains(at)) << "the key is on the map";
}

TEST_F(ReachTest, ABrushInTheHistogramMarksItsQueriesOnTheMap) {
  Open();
  Use("streaming-llm", "n_sink=4,n_local=16,n_dilated=0");
  auto* chart = Find<ui::MassChart>("massChart");
  QTest::mousePress(chart, Qt::LeftButton, {}, chart->PlaceOf(0.105));
  QTest::mouseMove(chart, chart->PlaceOf(0.2));
  QTest::mouseMove(chart, chart->PlaceOf(0.295));
  QTest::mouseRelease(chart, Qt::LeftButton, {}, chart->PlaceOf(0.295));
  ASSERT_TRUE(window_->state()->trial.brush());
  EXPECT_NEAR(window_->state()->trial.brush()->first, 0.10, 1e-9);
  EXPECT_NEAR(window_->state()->trial.brush()->second, 0.30, 1e-9);
  ASSERT_TRUE(WaitForCanvas());
  const std::vector<float>& mass = canvas_->mask()->kept_mass;
  const QImage picture = canvas_->grabFramebuffer();
  const double ratio = picture.devicePixelRatio();
  int marked = 0, plain = 0;
  for (int64_t row = 40; row < kTokens; ++row) {
    const QPointF at = canvas_->PixelOf(row, 0);
    const auto is_marked = [&](double y) {
      // The tick's colour at the map's left edge, of all pixels that stand for this row.
      const QRgb pixel = picture.pixel(int(at.x() * ratio) + 3, int(y * ratio));
      return qRed(pixel) > 240 && qGreen(pixel) < 140 && qBlue(pixel) < 90;
    };
    const auto brushed = [&](int64_t of) {
      const double kept = double(mass[size_t(of)]);
      return kept >= 0.10 && kept < 0.30;
    };
    if (brushed(row) && brushed(row - 1) && row + 1 < kTokens && brushed(row + 1)) {
      EXPECT_TRUE(is_marked(at.y())) << row;
      ++marked;
    } else if (!brushed(row) && !brushed(row - 1) && row + 1 < kTokens && !brushed(row + 1)) {
      EXPECT_FALSE(is_marked(at.y())) << row;
      ++plain;
    }
  }
  EXPECT_GT(marked, 0);
  EXPECT_GT(plain + marked, 20);
  chart->setFocus();
  QTest::keyClick(chart, Qt::Key_Escape);
  EXPECT_FALSE(window_->state()->trial.brush());
  QTest::keyClick(chart, Qt::Key_B);
  ASSERT_TRUE(window_->state()->trial.brush());
  EXPECT_EQ(window_->state()->trial.brush()->second, canvas_->mass_target()) << "those below the target";
}

TEST_F(ReachTest, WhatIsLeftOutIsColouredInsteadOfWhatIsKept) {
  Open();
  Use("streaming-llm", "n_sink=4,n_local=16,n_dilated=0");
  const auto colourful = [&](int64_t row, int64_t column) {
    const QImage picture = canvas_->grabFramebuffer();
    const QPointF at = canvas_->PixelOf(row, column) * picture.devicePixelRatio();
    const QColor pixel = picture.pixelColor(at.toPoint());
    return pixel.saturation() > 30;
  };
  EXPECT_FALSE(colourful(400, 100));
  EXPECT_TRUE(colourful(400, 398));
  window_->commands()[Command::kLost]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_TRUE(colourful(400, 100));
  EXPECT_FALSE(colourful(400, 398));
}

TEST_F(ReachTest, AClickOnAPointOfTheTradeOffOpensItsRun) {
  Open();
  Use("streaming-llm", "n_sink=4,n_local=64,n_dilated=0");
  ASSERT_TRUE(Finish(Command::kRun));
  Use("streaming-llm", "n_sink=4,n_local=16,n_dilated=0");
  ASSERT_TRUE(Finish(Command::kRun));
  Use("streaming-llm", "n_sink=8,n_local=128,n_dilated=0");
  Raise("tradeOffDock");
  auto* chart = Find<ui::TradeOffChart>("tradeOffChart");
  ASSERT_EQ(chart->points().size(), 3U) << "two runs and dense";
  const auto cheapest = std::min_element(chart->points().begin(), chart->points().end(),
                                         [](auto& a, auto& b) { return a.cost < b.cost; });
  EXPECT_TRUE(cheapest->on_front);
  // However low the pane is, no label lies over another one, and a high one names both the target and the runs.
  for (int height = 90; height <= 260; height += 10) {
    const auto labels = chart->LabelsIn(QRect(0, 0, 320, height));
    for (size_t i = 0; i < labels.size(); ++i) {
      for (size_t j = 0; j < i; ++j)
        EXPECT_FALSE(labels[i].place.intersects(labels[j].place))
            << height << ": " << labels[i].text.toStdString() << ", " << labels[j].text.toStdString();
    }
    if (height == 260) {
      EXPECT_GE(labels.size(), 3U) << "the target, dense and at least one of the runs";
    }
  }
  // Pointed at, its mask lies over the map; the panel keeps its own.
  const ui::MethodTrial& trial = window_->state()->trial;
  const int64_t own = trial.mask()->mask_id;
  QTest::mouseMove(chart, chart->PlaceOf(*cheapest));
  ASSERT_TRUE(WaitFor([&] { return trial.ghost().has_value(); }));
  EXPECT_EQ(trial.ghost()->summary.parameters, "n_sink=4,n_local=16,n_dilated=0,interval=1,local_share=0");
  EXPECT_LT(trial.ghost()->summary.kept_fraction, trial.mask()->summary.kept_fraction);
  EXPECT_EQ(trial.shown_mask()->mask_id, trial.ghost()->mask_id);
  EXPECT_EQ(trial.mask()->mask_id, own);
  EXPECT_EQ(canvas_->method_values().Integer("n_local"), 128);
  QTest::mouseMove(chart, {2, 2});
  ASSERT_TRUE(WaitFor([&] { return !trial.ghost().has_value(); }));
  EXPECT_EQ(trial.shown_mask()->mask_id, own);
  QTest::mouseClick(chart, Qt::LeftButton, {}, chart->PlaceOf(*cheapest));
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(canvas_->method_values().Integer("n_local"), 16);
  // The same by keys: the next one by cost.
  chart->setFocus();
  QTest::keyClick(chart, Qt::Key_Right);
  QTest::keyClick(chart, Qt::Key_Return);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(canvas_->method_values().Integer("n_local"), 64);
}

TEST_F(ReachTest, ACopiedRunGivesTheSameNumbersInATerminal) {
  Open({1, 3});
  Use("sample-attention", "alpha_c=0.8,alpha_s=0.8");
  ASSERT_TRUE(Finish(Command::kRun));
  window_->commands()[Command::kCopyRunCommand]->trigger();
  const QString command = QApplication::clipboard()->text();
  ASSERT_TRUE(command.startsWith(QStringLiteral("headscope compare "))) << command.toStdString();
  const QJsonObject json = RunInShell(command, File(QStringLiteral("copied.json")));
  const auto& runs = window_->state()->runs.runs();
  const auto run =
      std::find_if(runs.begin(), runs.end(), [](const auto& one) { return one.method == "sample-attention"; });
  ASSERT_NE(run, runs.end());
  QJsonObject same;
  for (const QJsonValue& result : json[QStringLiteral("results")].toArray()) {
    if (result.toObject()[QStringLiteral("method")] == QStringLiteral("sample-attention")) same = result.toObject();
  }
  ASSERT_FALSE(same.isEmpty());
  EXPECT_EQ(same[QStringLiteral("layer")].toInt(), 1);
  EXPECT_EQ(same[QStringLiteral("head")].toInt(), 3);
  for (const auto& [name, value] : {std::pair{"kept_fraction", run->kept_fraction}, std::pair{"cra_min", run->cra_min},
                                    std::pair{"cra_p5", run->cra_p5}, std::pair{"relative_error", run->relative_error}})
    EXPECT_NEAR(same[QLatin1String(name)].toDouble(), value, 1e-6 * std::max(1.0, value)) << name;
}

TEST_F(ReachTest, MapsOfAllHeadsComeByThemselvesAndAClickOpensOne) {
  Open({0, 0});
  Raise("mapsDock");
  auto* maps = Find<ui::MapsView>("mapsView");
  ASSERT_TRUE(WaitFor([&] { return maps->num_made() == 8; }));
  // Head 0 looks at the first token, head 2 at random ones: at the left edge the map of the first is nearly white-hot.
  const QImage picture = maps->viewport()->grab().toImage();
  const auto heat = [&](HeadId head) {
    const QRect rect = maps->RectOf(head);
    double sum = 0;
    for (int y = rect.center().y(); y < rect.bottom() - 2; ++y)
      sum += picture.pixelColor(QPoint(rect.left() + 1, y) * picture.devicePixelRatio()).red();
    return sum / (rect.bottom() - 2 - rect.center().y());
  };
  EXPECT_GT(heat({1, 0}), heat({1, 2}) + 40);
  QTest::mouseClick(maps->viewport(), Qt::LeftButton, {}, maps->RectOf({1, 2}).center());
  EXPECT_EQ(canvas_->head(), (HeadId{1, 2}));
  QTest::keyClick(maps, Qt::Key_Right);
  EXPECT_EQ(canvas_->head(), (HeadId{1, 3}));
  // Ctrl and the wheel make room for more of them, or more of one; what the keys open is brought into sight, and the
  // numbers along the edges open nothing.
  const int fitting = maps->RectOf({0, 0}).width();
  const auto turn = [&](QPoint delta) {
    const QPoint at = maps->viewport()->rect().center();
    QWheelEvent event(at, maps->viewport()->mapToGlobal(at), {}, delta, Qt::NoButton, Qt::ControlModifier,
                      Qt::NoScrollPhase, false);
    QApplication::sendEvent(maps->viewport(), &event);
  };
  const auto wheel = [&](int notches) { turn({0, 120 * notches}); };
  QTest::keyClick(maps, Qt::Key_Equal);  // the key of +
  EXPECT_GE(maps->RectOf({0, 0}).width(), fitting);
  QTest::keyClick(maps, Qt::Key_0);
  wheel(-1);
  EXPECT_LT(maps->RectOf({0, 0}).width(), fitting);
  // A touchpad begins with nothing, and tells of small parts.
  const int smaller = maps->RectOf({0, 0}).width();
  turn({0, 0});
  turn({120, 0});
  EXPECT_EQ(maps->RectOf({0, 0}).width(), smaller);
  for (int i = 0; i < 9; ++i) turn({0, 12});
  EXPECT_GT(maps->RectOf({0, 0}).width(), smaller);
  EXPECT_LT(maps->RectOf({0, 0}).width(), fitting);
  for (int i = 0; i < 12; ++i) wheel(+1);
  EXPECT_GT(maps->RectOf({0, 0}).width(), fitting);
  QTest::keyClick(maps, Qt::Key_Left);
  EXPECT_EQ(canvas_->head(), (HeadId{1, 2}));
  EXPECT_TRUE(maps->viewport()->rect().contains(maps->RectOf({1, 2}).center()));
  EXPECT_FALSE(maps->HeadAt({2, maps->viewport()->height() / 2}));
  QTest::keyClick(maps, Qt::Key_0);
  EXPECT_EQ(maps->RectOf({0, 0}).width(), fitting);
}

TEST_F(ReachTest, PicturesOfPanesHaveRealLetters) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  const QString svg = File(QStringLiteral("matrix.svg")), pdf = File(QStringLiteral("matrix.pdf"));
  for (const QString& path : {svg, pdf}) {
    AnswerFileDialog(path);
    window_->ActionNamed(QStringLiteral("export-picture-matrix"))->trigger();
    ASSERT_TRUE(WaitFor([&] { return QFile::exists(path); }));
  }
  QFile file(svg);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  const QByteArray text = file.readAll();
  EXPECT_TRUE(text.contains("<text")) << "letters, not a picture of them";
  EXPECT_TRUE(text.contains("KV 1"));
  EXPECT_FALSE(text.contains("<image"));
  QFile document(pdf);
  ASSERT_TRUE(document.open(QIODevice::ReadOnly));
  EXPECT_TRUE(document.readAll().startsWith("%PDF-"));
}

TEST_F(ReachTest, ThePaletteOpensHeadsAndMethods) {
  Open();
  const auto choose = [&](const char* typed) {
    Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
    auto* input = Find<QLineEdit>("paletteInput");
    input->setText(QLatin1String(typed));
    QTest::keyClick(input, Qt::Key_Return);
  };
  choose("1:2");
  EXPECT_EQ(canvas_->head(), (HeadId{1, 2}));
  choose("Method: StreamingLLM");
  EXPECT_EQ(canvas_->method(), QStringLiteral("streaming-llm"));
}

TEST_F(ReachTest, ThePaletteListsOneCategoryAndSaysWhenNothingMatches) {
  Open();
  Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  auto* input = Find<QLineEdit>("paletteInput");
  auto* list = Find<QListWidget>("paletteList");
  const auto texts = [&](const char* typed) {
    input->setText(QLatin1String(typed));
    QStringList all;
    for (int i = 0; i < list->count(); ++i) all.append(list->item(i)->text());
    return all;
  };
  EXPECT_TRUE(texts("edit:").contains(QStringLiteral("Settings")));
  EXPECT_FALSE(texts("edit:").contains(QStringLiteral("Open trace")));
  EXPECT_EQ(texts("head:").size(), window_->state()->heads.trace().heads.size()) << "all, though nothing else is typed";
  EXPECT_EQ(texts("RECENT:"), QStringList{QStringLiteral("Open ") + QFileInfo(trace_path()).fileName()});
  EXPECT_EQ(texts("view: zoom in").front(), QStringLiteral("Zoom in"));
  EXPECT_TRUE(texts("roofline").contains(QStringLiteral("Figure: Arithmetic intensity of decoding"))) << "by its help";
  EXPECT_EQ(texts("1:2").front(), QStringLiteral("1:2")) << "a head, and no category";
  const QString nothing = texts("xqzxqz").join(QChar(u'\n'));
  EXPECT_TRUE(nothing.startsWith(QStringLiteral("Nothing matches"))) << nothing.toStdString();
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_TRUE(input->isVisible()) << "there is nothing to choose";
  input->clear();
  QTest::keyClick(input, Qt::Key_PageDown);
  EXPECT_GT(list->currentRow(), 2);
}

TEST_F(ReachTest, TwoMapsShowTwoHeadsAtOneZoomAndOneCursor) {
  Open({0, 0});
  Use("streaming-llm", "n_sink=4,n_local=64,n_dilated=0");
  window_->commands()[Command::kSplit]->trigger();
  ui::HeadCanvas* second = window_->second_canvas();
  ASSERT_NE(second, nullptr);
  const auto both_settled = [&] { return canvas_->IsSettled() && second->IsSettled() && second->frames_drawn() > 0; };
  ASSERT_TRUE(WaitFor(both_settled));
  const auto scale_of = [](const ui::HeadCanvas* map) {
    return map->PixelOf(400, 201).x() - map->PixelOf(400, 200).x();
  };
  EXPECT_NEAR(scale_of(second), scale_of(canvas_), 1e-9) << "from the first frame on";
  ASSERT_TRUE(WaitFor([&] { return second->MapRect().top() == canvas_->MapRect().top(); }))
      << "rows at one height, wherever the panel is: " << canvas_->MapRect().top() << ", " << second->MapRect().top();
  ASSERT_TRUE(WaitFor([&] { return !canvas_->PanelControl(QStringLiteral("roll")).isNull(); }));
  for (int time = 0; time < 2; ++time) {
    // Each click rolls the panel up, or opens it.
    const double top = canvas_->MapRect().top();
    QTest::mouseClick(canvas_, Qt::LeftButton, {}, canvas_->PanelControl(QStringLiteral("roll")).center().toPoint());
    ASSERT_TRUE(WaitFor([&] { return canvas_->MapRect().top() != top; }));
    EXPECT_TRUE(WaitFor([&] { return both_settled() && second->MapRect().top() == canvas_->MapRect().top(); }))
        << "by hand, too: " << canvas_->MapRect().top() << ", " << second->MapRect().top();
  }
  EXPECT_EQ(second->head(), (HeadId{0, 0}));
  EXPECT_EQ(second->method(), QStringLiteral("streaming-llm"));
  // The first goes on to another head and another mask; the second stays.
  window_->store()->Select({1, 2});
  Use("streaming-llm", "n_sink=4,n_local=16,n_dilated=0");
  EXPECT_EQ(canvas_->head(), (HeadId{1, 2}));
  EXPECT_EQ(second->head(), (HeadId{0, 0}));
  EXPECT_EQ(second->method_values().Integer("n_local"), 64);
  ASSERT_TRUE(WaitFor(both_settled));
  EXPECT_LT(canvas_->mask()->summary.kept_fraction, second->mask()->summary.kept_fraction);
  // What is zoomed in either is zoomed in the other.
  canvas_->GoTo(400, 200);
  ASSERT_TRUE(WaitFor(both_settled));
  EXPECT_NEAR(scale_of(second), scale_of(canvas_), 1e-9);
  EXPECT_TRUE(QRectF(second->rect()).contains(second->PixelOf(400, 200)));
  second->ZoomOut();
  EXPECT_NEAR(scale_of(second), scale_of(canvas_), 1e-9);
  ASSERT_TRUE(WaitFor(both_settled));
  // The score under the first map's pointer is marked on the second.
  const auto blue_at = [&](int64_t row, int64_t column) {
    const QImage picture = second->grabFramebuffer();
    const QPointF at = second->PixelOf(row, column + 2) * picture.devicePixelRatio();
    int most = -255;
    for (int dy = -1; dy <= 1; ++dy) {
      const QColor pixel = picture.pixelColor(at.toPoint() + QPoint(0, dy));
      most = std::max(most, pixel.blue() - pixel.red());
    }
    return most;
  };
  const int before = blue_at(399, 198);
  canvas_->SetPanelVisible(false);
  QTest::mouseMove(canvas_, canvas_->PixelOf(399, 198).toPoint());
  ASSERT_TRUE(WaitFor([&] { return blue_at(399, 198) > before + 15; }, 5000));
  window_->commands()[Command::kExchangeMaps]->trigger();
  ASSERT_TRUE(WaitFor(both_settled));
  EXPECT_EQ(canvas_->head(), (HeadId{0, 0}));
  EXPECT_EQ(second->head(), (HeadId{1, 2}));
  EXPECT_EQ(canvas_->method_values().Integer("n_local"), 64);
  window_->commands()[Command::kSplitFollows]->trigger();
  EXPECT_EQ(second->head(), (HeadId{0, 0}));
  window_->commands()[Command::kSplit]->trigger();
  EXPECT_EQ(window_->second_canvas(), nullptr);
  ASSERT_TRUE(WaitForCanvas());
}

TEST_F(ReachTest, AMapInAFileIsWhatItsCommandLineDraws) {
  Open({0, 2});
  Use("streaming-llm", "n_sink=4,n_local=64,n_dilated=0");
  canvas_->SetPicturesLight(true);
  canvas_->ZoomTo(100, 400, 50, 350);
  ASSERT_TRUE(WaitForCanvas());
  // The first time a notice comes and takes room from the map.
  QString command;
  for (int time = 0; time < 2; ++time) {
    window_->commands()[Command::kCopyViewCommand]->trigger();
    ASSERT_TRUE(WaitForCanvas());
    command = QApplication::clipboard()->text();
  }
  auto* progress = Find<ui::ProgressStrip>("progressStrip");
  for (const char* kind : {"svg", "pdf"}) {
    const QString path = File(QStringLiteral("map.") + QLatin1String(kind));
    AnswerFileDialog(path, QStringLiteral("*.") + QLatin1String(kind));
    window_->commands()[Command::kExportCanvas]->trigger();
    ASSERT_TRUE(WaitFor([&] { return QFile::exists(path) && !progress->IsBusy(); }));
  }
  EXPECT_TRUE(command.contains(QStringLiteral("--view overlay --method streaming-llm:"))) << command.toStdString();
  command.truncate(command.indexOf(QStringLiteral(" -o ")));
  const QString drawn = File(QStringLiteral("drawn.svg"));
  RunInShell(command, drawn);
  const auto bytes = [](const QString& path) {
    QFile file(path);
    EXPECT_TRUE(file.open(QIODevice::ReadOnly));
    return file.readAll();
  };
  const auto title = [&](const QString& path) {
    const QByteArray text = bytes(path);
    const qsizetype begin = text.indexOf("<title>");
    return text.mid(begin, text.indexOf("</title>") - begin);
  };
  EXPECT_TRUE(title(drawn).contains("layer 0, head 2")) << title(drawn).toStdString();
  EXPECT_EQ(title(File(QStringLiteral("map.svg"))), title(drawn));
  EXPECT_TRUE(bytes(File(QStringLiteral("map.pdf"))).startsWith("%PDF-"));
  // A width that was asked for.
  canvas_->SetPictureWidth(1000);
  const QString png = File(QStringLiteral("wide.png"));
  AnswerFileDialog(png);
  window_->commands()[Command::kExportCanvas]->trigger();
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(png) && !progress->IsBusy(); }));
  EXPECT_NEAR(QImage(png).width(), 1000, 2);
}

TEST_F(ReachTest, FourMapsShareZoomAndCursorAndEachHasItsHeadAndMethod) {
  Open({0, 0});
  window_->commands()[Command::kSplitFour]->trigger();
  QList<ui::HeadCanvas*> maps{canvas_};
  for (const char* name : {"secondCanvas", "thirdCanvas", "fourthCanvas"}) maps.append(Find<ui::HeadCanvas>(name));
  const auto all_settled = [&] {
    return std::all_of(maps.begin(), maps.end(),
                       [](const ui::HeadCanvas* map) { return map->frames_drawn() > 0 && map->IsSettled(); });
  };
  ASSERT_TRUE(WaitFor(all_settled));
  // Keys in a map are about that map.
  maps[3]->setFocus();
  QTest::keyClick(maps[3], Qt::Key_Period);
  EXPECT_EQ(maps[3]->head(), (HeadId{0, 1}));
  EXPECT_EQ(maps[2]->head(), (HeadId{0, 0}));
  const QString before = maps[2]->method();
  maps[2]->setFocus();
  window_->commands()[Command::kNextMethod]->trigger();
  EXPECT_NE(maps[2]->method(), before);
  EXPECT_EQ(canvas_->method(), before);
  maps[2]->GoTo(300, 100);
  ASSERT_TRUE(WaitFor(all_settled));
  for (const ui::HeadCanvas* map : maps) {
    EXPECT_NEAR(map->ScoresPerPixel(), maps[2]->ScoresPerPixel(), 1e-9);
    EXPECT_TRUE(QRectF(map->rect()).contains(map->PixelOf(300, 100)));
  }
  // The first map and the one with the keyboard change places.
  maps[3]->setFocus();
  window_->commands()[Command::kExchangeMaps]->trigger();
  EXPECT_EQ(canvas_->head(), (HeadId{0, 1}));
  EXPECT_EQ(maps[3]->head(), (HeadId{0, 0}));
  // Two of the four go, and then the last.
  window_->commands()[Command::kSplit]->trigger();
  EXPECT_EQ(window_->findChild<ui::HeadCanvas*>(QStringLiteral("fourthCanvas")), nullptr);
  EXPECT_NE(window_->second_canvas(), nullptr);
  window_->commands()[Command::kSplit]->trigger();
  EXPECT_EQ(window_->second_canvas(), nullptr);
  ASSERT_TRUE(WaitForCanvas());
}

TEST_F(ReachTest, TheDifferenceOfTwoMasksIsTheCommandLines) {
  Open({0, 2});
  Use("streaming-llm", "n_sink=4,n_local=64,n_dilated=0");
  window_->commands()[Command::kSplit]->trigger();
  Use("a-shape", "n_sink=16,n_local=16");
  window_->commands()[Command::kMapDifference]->trigger();
  ASSERT_TRUE(WaitFor([&] { return canvas_->ComparisonLines().size() == 3 && canvas_->IsSettled(); }));
  ASSERT_TRUE(WaitFor([&] { return canvas_->ComparisonLines()[2].contains(QLatin1Char('%')); }));
  // Its colours are on the map.
  const QImage picture = canvas_->grabFramebuffer();
  const auto at = [&](int64_t row, int64_t column) {
    return picture.pixelColor((canvas_->PixelOf(row, column) * picture.devicePixelRatio()).toPoint());
  };
  EXPECT_GT(at(400, 8).red(), at(400, 8).blue() + 60) << "the first alone: orange";
  EXPECT_GT(at(400, 360).blue(), at(400, 360).red() + 60) << "the second alone: blue";
  window_->commands()[Command::kCopyDifferenceCommand]->trigger();
  const QString command = QApplication::clipboard()->text();
  EXPECT_TRUE(
      command.contains(QStringLiteral(" --method a-shape:n_sink=16,n_local=16 --method streaming-llm:n_sink=4,")))
      << command.toStdString();
  const QJsonObject told = RunInShell(command, File(QStringLiteral("overlap.json")));
  const QJsonObject head = told["heads"].toArray().first().toObject();
  const QStringList lines = canvas_->ComparisonLines();
  const char* const names[] = {"first_alone", "second_alone", "both"};
  for (int i = 0; i < 3; ++i) {
    const qint64 count = head[QLatin1String(names[i])].toInteger();
    EXPECT_TRUE(lines[i].contains(QStringLiteral("(%1 score").arg(ui::CountText(count))))
        << lines[i].toStdString() << " and " << names[i];
    EXPECT_GT(count, 0) << "the case says something";
  }
  window_->commands()[Command::kMapDifference]->trigger();
  EXPECT_FALSE(window_->commands()[Command::kCopyDifferenceCommand]->isEnabled()) << "nothing is compared";
}

TEST_F(ReachTest, AnotherTraceInTheSecondMapIsComparedHeadByHead) {
  const QString other = File(QStringLiteral("other.h5"));
  WriteSmallTrace(other.toStdString(), 64);  // layer 1 has a window there
  Open({1, 2});
  ASSERT_TRUE(WaitForStatistics());
  window_->store()->SetMetric("entropy");
  auto* table = Find<QTableView>("headTable");
  const int difference = ui::HeadTableModel::DifferenceColumn();
  EXPECT_TRUE(table->isColumnHidden(difference)) << "from what?";
  AnswerFileDialog(other);
  window_->commands()[Command::kCompareTrace]->trigger();
  ui::HeadStore* heads = window_->store();
  ASSERT_TRUE(WaitFor([&] { return heads->shows_differences() && !std::isnan(heads->MetricOf({1, 2})); }));
  ui::HeadCanvas* second = window_->second_canvas();
  ASSERT_NE(second, nullptr);
  ASSERT_TRUE(WaitFor([&] { return second->IsSettled() && canvas_->IsSettled(); }));
  EXPECT_EQ(QString::fromStdString(second->trace().path), other);
  EXPECT_EQ(second->head(), (HeadId{1, 2}));
  // As `headscope diff` has them.
  ASSERT_TRUE(WaitFor([&] {
    const std::vector<HeadId>& all = heads->trace().heads;
    return std::all_of(all.begin(), all.end(), [&](HeadId head) {
      const auto* exact = heads->FindOther(head);
      return exact != nullptr && exact->num_rows == kTokens;
    });
  }));
  const QJsonObject told = RunInShell(QStringLiteral("headscope diff %1 %2 --metrics entropy").arg(trace_path(), other),
                                      File(QStringLiteral("diff.json")));
  for (const QJsonValue& value : told["heads"].toArray()) {
    const HeadId id{value["layer"].toInt(), value["head"].toInt()};
    EXPECT_NEAR(heads->MetricOf(id), value["metrics"]["entropy"]["difference"].toDouble(), 1e-5);
  }
  // The table lists the heads by how much they differ, whatever the sign.
  ASSERT_FALSE(table->isColumnHidden(difference));
  EXPECT_EQ(table->columnViewportPosition(difference),
            table->columnViewportPosition(ui::HeadTableModel::kClass) + table->columnWidth(ui::HeadTableModel::kClass));
  table->sortByColumn(difference, Qt::DescendingOrder);
  double before = std::numeric_limits<double>::infinity();
  for (int row = 0; row < table->model()->rowCount(); ++row) {
    const auto of = [&](int column) { return table->model()->index(row, column).data(); };
    const HeadId head{of(ui::HeadTableModel::kLayer).toInt(), of(ui::HeadTableModel::kHead).toInt()};
    const double size = std::fabs(heads->MetricOf(head));
    EXPECT_LE(size, before);
    EXPECT_EQ(of(difference).toString(), ui::FormatMetric(heads->MetricOf(head)));
    before = size;
  }
  EXPECT_LT(heads->MetricOf({1, 2}), -0.1) << "a window leaves fewer keys to choose among";
  EXPECT_NEAR(heads->MetricOf({0, 2}), 0, 1e-9);
  // The map of the difference: of layer 1 there is one, of layer 0 there is nothing.
  window_->commands()[Command::kMapDifference]->trigger();
  ASSERT_TRUE(WaitFor([&] { return canvas_->IsSettled() && second->IsSettled(); }));
  EXPECT_EQ(canvas_->ComparisonLines().size(), 2);
  window_->store()->Select({1, 3});
  EXPECT_EQ(second->head(), (HeadId{1, 3})) << "the other trace follows";
  window_->commands()[Command::kCompareTrace]->trigger();
  EXPECT_FALSE(heads->HasOther());
  EXPECT_TRUE(table->isColumnHidden(difference));
  EXPECT_EQ(table->horizontalHeader()->sortIndicatorSection(), ui::HeadTableModel::kLayer);
  EXPECT_EQ(QString::fromStdString(second->trace().path), trace_path());
  ASSERT_TRUE(WaitFor([&] { return canvas_->IsSettled() && second->IsSettled(); }));
}

TEST_F(ReachTest, WhereAMethodKeepsEverythingItSaysSoAndFitsToTheTrace) {
  Open();
  Use("streaming-llm", "n_local=1020");
  ASSERT_GE(canvas_->mask()->summary.kept_fraction, 1.0) << "512 tokens";
  window_->state()->trial.SetTarget(0.5);
  ASSERT_TRUE(WaitFor([&] { return !canvas_->PanelControl(QStringLiteral("fit_trace")).isNull(); }));
  QTest::mouseClick(canvas_, Qt::LeftButton, {}, canvas_->PanelControl(QStringLiteral("fit_trace")).center().toPoint());
  ASSERT_TRUE(WaitFor([&] { return canvas_->method_values().Integer("n_local") < 1020; }));
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_LT(canvas_->mask()->summary.kept_fraction, 1);
  EXPECT_GE(canvas_->mask()->distribution.fifth_percentile, 0.5 - 1e-6);
  EXPECT_TRUE(WaitFor([&] { return canvas_->PanelControl(QStringLiteral("fit_trace")).isNull(); }));
  window_->commands()[Command::kUndo]->trigger();
  EXPECT_EQ(canvas_->method_values().Integer("n_local"), 1020);
}

// "compression_rati": the slider began where the name went on.
TEST_F(ReachTest, NoNameOfAParameterIsCutOff) {
  Open();
  for (const char* method : {"quest", "s2-attention", "sparq", "a-shape"}) {
    ASSERT_NO_FATAL_FAILURE(Use(method, ""));
    const auto& methods = canvas_->methods();
    const auto spec = std::find_if(methods.begin(), methods.end(), [&](const auto& one) { return one.name == method; });
    int named = 0;
    for (const kernels::ParameterSpec& parameter : spec->parameters) {
      const QString name = QString::fromStdString(parameter.name);
      const QRectF label = canvas_->PanelControl(QStringLiteral("label:") + name),
                   control = canvas_->PanelControl(name);
      if (label.isNull()) continue;  // a flag's name stands behind its box
      ++named;
      EXPECT_LT(label.right(), control.left()) << method << ": " << parameter.name;
    }
    EXPECT_GT(named, 0) << method;
  }
}

TEST_F(ReachTest, AFilterCountsItsHeads) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  Find<QLineEdit>("headFilter")->setText(QStringLiteral("1:"));
  EXPECT_TRUE(Find<QLabel>("headCount")->isVisible());
  EXPECT_EQ(Find<QLabel>("headCount")->text(), QStringLiteral("4 of 8"));
  Find<QLineEdit>("headFilter")->clear();
  EXPECT_FALSE(Find<QLabel>("headCount")->isVisible());
}

TEST_F(ReachTest, TheFindBarTakesNoRoomFromTheMap) {
  Open();
  const QSize before = canvas_->size();
  Press(Qt::Key_F, Qt::ControlModifier);
  ASSERT_TRUE(Find<QLineEdit>("findInput")->isVisible());
  QTest::qWait(50);
  EXPECT_EQ(canvas_->size(), before);
}

TEST_F(ReachTest, MeansOnALinearScaleAreNotOneColour) {
  Open();
  canvas_->SetOverlay(false);
  canvas_->SetScale(ui::ColorScale::kLinear);
  const QJsonObject bright = canvas_->ViewState();
  canvas_->SetReduction(analysis::TileReduction::kMean);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitFor([&] {
    return canvas_->ViewState()[QStringLiteral("range_log2_max")].toDouble() <
           bright[QStringLiteral("range_log2_max")].toDouble() - 1;
  }));
  ASSERT_TRUE(WaitForCanvas());
  const QImage picture = canvas_->grabFramebuffer();
  std::set<QRgb> colours;
  for (int64_t row = 100; row < kTokens; row += 7) {
    for (int64_t column = 0; column < row; column += 5)
      colours.insert(picture.pixel((canvas_->PixelOf(row, column) * picture.devicePixelRatio()).toPoint()));
  }
  EXPECT_GT(colours.size(), 30U);
  canvas_->SetScale(ui::ColorScale::kLogarithmic);
  EXPECT_EQ(canvas_->ViewState()[QStringLiteral("range_log2_max")], bright[QStringLiteral("range_log2_max")])
      << "the range comes back";
}

TEST_F(ReachTest, TheFrameOfTheOpenHeadIsSeenOnLightAndDarkCells) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  for (const char* theme : {"light", "dark"}) {
    window_->theme()->Set(QLatin1String(theme));
    QTest::qWait(30);
    const QImage picture = matrix->grab().toImage();
    const QPoint centre = *matrix->CellCentre({0, 2});
    const int cell = matrix->CellColor({0, 2})->lightness();
    int farthest = 0;
    for (int x = 0; x < 60; ++x) {
      const QPoint at = (centre + QPoint(x, 7)) * picture.devicePixelRatio();
      const int beyond = std::abs(picture.pixelColor(at).lightness() - cell);
      farthest = std::max(farthest, beyond);
      if (matrix->CellCentre({0, 3})->x() - centre.x() <= x) break;
    }
    EXPECT_GT(farthest, 110) << theme;
  }
}

}  // namespace
}  // namespace headscope::gui_test
