// SPDX-License-Identifier: Apache-2.0
// What leaves the window: the map on the clipboard, masks, tables as pictures, a page of the trace; and what is tried
// on traces that nothing was chosen by.
#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QDateTime>
#include <QImage>
#include <QJsonArray>
#include <QListWidget>
#include <QPushButton>
#include <QRegularExpression>
#include <QSignalSpy>
#include <algorithm>
#include <cstdlib>
#include <map>

#include "analysis/types/color_map.h"
#include "analysis/types/mask_overlap.h"
#include "canvas_layout.h"
#include "maps_pane.h"
#include "reach_fixture.h"
#include "tune_dialog.h"
#include "view_transform.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

QByteArray Contents(const QString& path) {
  QFile file(path);
  EXPECT_TRUE(file.open(QIODevice::ReadOnly)) << path.toStdString();
  return file.readAll();
}

TEST_F(ReachTest, TheMapGoesToTheClipboardAsItIsExported) {
  Open();
  // What was chosen for the file is the clipboard's, too.
  for (const QString& ground : {QStringLiteral("dark"), QStringLiteral("white")}) {
    const QString path = File(ground + QStringLiteral("-map.png"));
    AnswerFileDialog(path, ground);
    ASSERT_TRUE(Finish(Command::kExportCanvas));
    ASSERT_TRUE(WaitFor([&] { return QFile::exists(path); }));
    const QImage exported = QImage(path).convertToFormat(QImage::Format_RGB32);
    QApplication::clipboard()->clear();
    ASSERT_TRUE(Finish(Command::kCopyMap));
    const QImage copied = QApplication::clipboard()->image();
    ASSERT_FALSE(copied.isNull());
    EXPECT_EQ(copied.convertToFormat(QImage::Format_RGB32), exported) << ground.toStdString();
  }
}

// The PNG is the canvas's own, with its caption and curves; SVG, PDF and the report's pictures are painted elsewhere.
class DrawnTwiceTest : public ReachTest {
 protected:
  // Score by score both have the same colour, kept or not, of which some are grey.
  void ExpectSameColours(int least_grey);
};

void DrawnTwiceTest::ExpectSameColours(int least_grey) {
  ASSERT_TRUE(WaitForCanvas());
  const ui::HeadCanvas::Part part = canvas_->VisiblePart();
  const QString svg = File(QStringLiteral("map.svg"));
  AnswerFileDialog(svg, QStringLiteral("*.svg"));
  ASSERT_TRUE(Finish(Command::kExportCanvas));
  const QByteArray text = Contents(svg), before = "data:image/png;base64,";
  const qsizetype begin = text.indexOf(before) + before.size();
  const QImage painted = QImage::fromData(QByteArray::fromBase64(text.mid(begin, text.indexOf('"', begin) - begin)));
  const int64_t columns = part.column_end - part.column_begin, rows = part.row_end - part.row_begin;
  ASSERT_GT(painted.width(), 3 * columns) << "a score has some pixels";
  ASSERT_GT(painted.height(), 3 * rows);

  const double scale = 2;
  const QSize size = canvas_->PictureSize() * scale;
  QSignalSpy made(canvas_, &ui::HeadCanvas::PictureMade);
  canvas_->MakePicture(size, scale);
  ASSERT_TRUE(WaitFor([&] { return made.size() == 1; }, 60000));
  const QImage drawn = made[0][0].value<QImage>();
  ASSERT_EQ(drawn.size(), size);
  // What the window shows, as large as it fits the picture's map.
  const QPointF middle = canvas_->PixelOf(part.row_begin + 5, part.column_begin + 5);
  const QRectF map = canvas_->MapRect();
  const double scores = canvas_->ScoresPerPixel();
  const ui::CanvasLayout layout = canvas_->PictureLayout(drawn.size() / scale);
  const double row_begin = static_cast<double>(part.row_begin) + 5.5 - (middle.y() - map.top()) * scores,
               column_begin = static_cast<double>(part.column_begin) + 5.5 - (middle.x() - map.left()) * scores;
  ui::ViewTransform view;
  view.SetMap(static_cast<int64_t>(window_->store()->trace().num_rows), window_->store()->trace().num_tokens);
  view.SetViewport(layout.map);
  view.ZoomTo({.row_begin = row_begin,
               .row_end = row_begin + map.height() * scores,
               .column_begin = column_begin,
               .column_end = column_begin + map.width() * scores});
  int compared = 0, grey = 0, differing = 0;
  for (int64_t row = part.row_begin + 1; row < part.row_end - 1; ++row) {
    for (int64_t column = part.column_begin + 1; column < std::min(part.column_end - 1, row); ++column) {
      const double x = view.ColumnToX(static_cast<double>(column) + 0.5),
                   y = view.RowToY(static_cast<double>(row) + 0.5);
      if (!layout.map.Contains(x - 2, y - 2) || !layout.map.Contains(x + 2, y + 2)) continue;
      const QColor png = drawn.pixelColor(static_cast<int>(x * scale), static_cast<int>(y * scale)),
                   page = painted.pixelColor(
                       static_cast<int>((2 * (column - part.column_begin) + 1) * painted.width() / (2 * columns)),
                       static_cast<int>((2 * (row - part.row_begin) + 1) * painted.height() / (2 * rows)));
      ++compared;
      grey += png.red() == png.green() && png.green() == png.blue() ? 1 : 0;
      const int most = std::max(
          {std::abs(png.red() - page.red()), std::abs(png.green() - page.green()), std::abs(png.blue() - page.blue())});
      differing += most > 2 ? 1 : 0;
    }
  }
  EXPECT_GT(compared, 5000);
  EXPECT_GT(grey, least_grey) << "what the method leaves out";
  EXPECT_GT(compared - grey, 1000);
  EXPECT_EQ(differing, 0) << "of " << compared;
}

TEST_F(DrawnTwiceTest, AMapAsPngHasTheColoursOfTheMapAsSvg) {
  Open({0, 2});
  Use("streaming-llm", "n_sink=4,n_local=64,n_dilated=0");
  canvas_->ZoomTo(260, 380, 180, 300);
  ExpectSameColours(1000);
}

// Of which the last rows alone are steps.
TEST_F(DrawnTwiceTest, ADecodeMethodsMapAsPngHasTheColoursOfTheMapAsSvg) {
  Open({0, 2});
  Use("sparq", "r=8,k=64");
  canvas_->ZoomTo(432, 512, 392, 472);
  ExpectSameColours(500);
}

// The colours of two masks are no values: their legend stands where the bar of values does.
TEST_F(ReachTest, TwoMasksHaveALegendInPlaceOfTheColourBar) {
  Open({0, 2});
  Use("streaming-llm", "n_sink=4,n_local=64,n_dilated=0");
  window_->commands()[Command::kSplit]->trigger();
  Use("a-shape", "n_sink=16,n_local=16");
  const auto pixels_of = [&](analysis::Rgb color) {
    const QSize size = canvas_->PictureSize();
    QSignalSpy made(canvas_, &ui::HeadCanvas::PictureMade);
    canvas_->MakePicture(size, 1);
    EXPECT_TRUE(WaitFor([&] { return made.size() == 1; }, 60000));
    const QImage drawn = made[0][0].value<QImage>();
    const ui::PixelRect bar = canvas_->PictureLayout(size).color_bar;
    int count = 0;
    for (int y = static_cast<int>(bar.y); y < bar.bottom(); ++y) {
      for (int x = static_cast<int>(bar.x); x < std::min<int>(drawn.width(), static_cast<int>(bar.right())); ++x)
        count += drawn.pixel(x, y) == qRgb(color.red, color.green, color.blue) ? 1 : 0;
    }
    return count;
  };
  const analysis::Rgb brightest = analysis::FindColorMap(canvas_->color_map().toStdString())->palette.back();
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_GT(pixels_of(brightest), 0);
  for (const analysis::Rgb color : analysis::kKeptByColors) EXPECT_EQ(pixels_of(color), 0) << "one mask alone";
  window_->commands()[Command::kMapDifference]->trigger();
  ASSERT_TRUE(WaitFor([&] { return canvas_->ComparisonLines().size() == 3 && canvas_->IsSettled(); }));
  EXPECT_EQ(pixels_of(brightest), 0);
  for (const analysis::Rgb color : analysis::kKeptByColors) EXPECT_GE(pixels_of(color), 150) << "a square of 14 pixels";
}

// An SVG is read by people who never saw the window: it has every sentence that the window's own picture has, as text,
// and `headscope render` writes the same file.
// That of a decode method has the lanes of its steps.
TEST_F(ReachTest, AMapAsSvgSaysAllThatTheMapAsPngSays) {
  Open({0, 2});
  const auto sentences_of = [](const QString& path) {
    QStringList texts;
    const QString svg = QString::fromUtf8(Contents(path));
    QRegularExpressionMatchIterator matches =
        QRegularExpression(QStringLiteral("<text[^>]*>([^<]*)</text>")).globalMatch(svg);
    while (matches.hasNext()) texts.append(matches.next().captured(1));
    return texts.join(u' ').replace(QStringLiteral("&#39;"), QStringLiteral("'"));
  };
  struct Case {
    const char *method, *parameters, *said;
    bool lost, alone;
  };
  for (const Case& one : {Case{"streaming-llm", "n_sink=4,n_local=64,n_dilated=0", "n_local=64", false, false},
                          Case{"streaming-llm", "n_sink=4,n_local=64,n_dilated=0", "n_local=64", true, false},
                          Case{"sparq", "r=8,k=64", "one selection for query heads 2 to 3", false, false},
                          Case{"sparq", "r=8,k=64", "k=64", true, true}}) {
    SCOPED_TRACE(std::string(one.method) + (one.lost ? ", lost" : "") + (one.alone ? ", alone" : ""));
    Use(one.method, one.parameters);
    canvas_->SetLost(one.lost);
    window_->state()->trial.SetMeasuresAlone(one.alone);
    ASSERT_TRUE(WaitForCanvas());
    const QString name = QStringLiteral("%1-%2").arg(QLatin1String(one.method)).arg(one.lost);
    const QString svg = File(name + QStringLiteral(".svg")), again = File(name + QStringLiteral("-again.svg"));
    const QStringList words = canvas_->accessibleDescription().split(u'\n');
    AnswerFileDialog(svg, QStringLiteral("*.svg"));
    // Twice: the message of the first takes room from the map, whose size both are to have.
    window_->commands()[Command::kCopyViewCommand]->trigger();
    const double height = canvas_->MapRect().height();
    WaitFor([&] { return canvas_->MapRect().height() != height; }, 500);  // if the message is of other lines
    ASSERT_TRUE(WaitForCanvas());
    window_->commands()[Command::kCopyViewCommand]->trigger();
    ASSERT_TRUE(Finish(Command::kExportCanvas));
    const QString drawn = sentences_of(svg);
    EXPECT_TRUE(drawn.contains(canvas_->accessibleName())) << drawn.toStdString();
    ASSERT_GE(words.size(), 4) << "where it is from, colours, curves, method";
    for (qsizetype i = 0; i < 4; ++i)
      EXPECT_TRUE(drawn.contains(words[i])) << words[i].toStdString() << "\nin\n" << drawn.toStdString();
    EXPECT_TRUE(words[3].contains(QLatin1String(one.said))) << words[3].toStdString();
    EXPECT_EQ(drawn.contains(QStringLiteral("kept by 16 queries, 496 to 511")), window_->state()->trial.is_decode())
        << drawn.toStdString();
    QString command = QApplication::clipboard()->text().section(QStringLiteral(" -o "), 0, 0);
    command.remove(QStringLiteral(" --ground dark"));
    RunInShell(command, again);
    EXPECT_EQ(command.contains(QStringLiteral("--measure head")), one.alone) << command.toStdString();
    const QByteArray here = Contents(svg), there = Contents(again);
    const auto differ = std::mismatch(here.begin(), here.end(), there.begin(), there.end());
    const qsizetype at = std::max<qsizetype>(differ.first - here.begin() - 40, 0);
    EXPECT_TRUE(here == there) << command.toStdString() << "\n"
                               << here.mid(at, 120).toStdString() << "\nin place of\n"
                               << there.mid(at, 120).toStdString();
  }
}

TEST_F(ReachTest, AnExportedMaskIsTheOneThatTheCommandLineSaves) {
  Open();
  Use("a-shape", "n_sink=4,n_local=32");
  const QString json = File(QStringLiteral("mask.json")), file = File(QStringLiteral("mask.h5"));
  for (const QString& path : {json, file}) {
    AnswerFileDialog(path);
    window_->commands()[Command::kExportMask]->trigger();
    ASSERT_TRUE(WaitFor([&] { return QFile::exists(path); }));
  }
  const QString saved = File(QStringLiteral("saved.json"));
  RunInShell(QStringLiteral("headscope compare %1 --method a-shape:n_sink=4,n_local=32 --heads 0:2 --measure head "
                            "--repeat 1 --save-index %2")
                 .arg(trace_path(), saved),
             File(QStringLiteral("results.json")));
  const QByteArray mask = Contents(json);
  EXPECT_EQ(mask, Contents(saved));
  // A row far from the beginning keeps four sinks and the 32 keys up to its own.
  const QJsonObject read = QJsonDocument::fromJson(mask).object();
  EXPECT_EQ(read[QStringLiteral("heads")].toArray(), (QJsonArray{QJsonArray{0, 2}}));
  EXPECT_EQ(read[QStringLiteral("seq_q")].toInt(), int{kTokens});
  EXPECT_FALSE(read[QStringLiteral("runs")].toArray().isEmpty());
  // The other file is a method that runs.
  const QJsonObject run = RunInShell(QStringLiteral("headscope compare %1 --method mask-file:path=%2 --heads 0:2 "
                                                    "--measure head --repeat 1")
                                         .arg(trace_path(), file),
                                     File(QStringLiteral("again.json")));
  const auto kept = [](const QJsonObject& results) {
    for (const QJsonValue& one : results[QStringLiteral("results")].toArray()) {
      if (!one[QStringLiteral("method")].toString().contains(QStringLiteral("dense")))
        return one[QStringLiteral("kept_fraction")].toDouble();
    }
    return -1.0;
  };
  EXPECT_GT(kept(run), 0);
  EXPECT_NEAR(kept(run), window_->canvas()->mask()->summary.kept_fraction, 1e-9);
}

TEST_F(ReachTest, TablesArePicturesWithRealLetters) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  EXPECT_FALSE(window_->ActionNamed(QStringLiteral("export-picture-runs"))->isEnabled()) << "no runs yet";
  for (const char* kind : {"svg", "pdf", "png"}) {
    const QString path = File(QStringLiteral("heads.") + QLatin1String(kind));
    AnswerFileDialog(path);
    window_->ActionNamed(QStringLiteral("export-picture-heads"))->trigger();
    ASSERT_TRUE(WaitFor([&] { return QFile::exists(path); }));
  }
  const QByteArray svg = Contents(File(QStringLiteral("heads.svg")));
  EXPECT_TRUE(svg.contains("<svg"));
  EXPECT_FALSE(svg.contains("<image")) << "letters, not a picture of them";
  EXPECT_TRUE(Contents(File(QStringLiteral("heads.pdf"))).startsWith("%PDF-"));
  const QImage png(File(QStringLiteral("heads.png")));
  EXPECT_GT(png.width(), 400);
  // A row fewer is a lower picture.
  window_->state()->heads.AskForFilter(QStringLiteral("0:"));
  ASSERT_TRUE(WaitFor([&] { return !window_->store()->Passes({1, 0}); }));
  const QString fewer = File(QStringLiteral("fewer.png"));
  AnswerFileDialog(fewer);
  window_->ActionNamed(QStringLiteral("export-picture-heads"))->trigger();
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(fewer); }));
  EXPECT_LT(QImage(fewer).height(), png.height());
}

// Also of a pane behind a tab, which has never had a size.
TEST_F(ReachTest, PicturesOfPanesAreAsWideAsChosen) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  Use("a-shape", "n_sink=4,n_local=32");
  ASSERT_TRUE(Finish(Command::kRun));
  ASSERT_TRUE(Find<QWidget>("histogramDock")->visibleRegion().isEmpty()) << "behind a tab";
  const auto width_of = [&](const QString& pane, const QString& file) {
    QAction* const action = window_->ActionNamed(QStringLiteral("export-picture-") + pane);
    Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);  // asks the panes what there is
    Press(Qt::Key_Escape);
    EXPECT_TRUE(action->isEnabled()) << action->statusTip().toStdString();
    const QString path = File(pane + file);
    AnswerFileDialog(path);
    action->trigger();
    EXPECT_TRUE(WaitFor([&] { return QFile::exists(path); })) << path.toStdString();
    return QImage(path).size();
  };
  std::map<QString, QSize> sizes;
  for (const char* pane : {"matrix", "histogram", "trade-off", "kept-mass", "kept-mass-curve", "heads", "runs"}) {
    const QSize dock = Find<QWidget>("massDock")->size();
    const QString name = QLatin1String(pane);
    sizes[name] = width_of(name, QStringLiteral(".png"));
    if (name != u"heads" && name != u"runs") {
      EXPECT_GE(sizes[name].width(), 1280) << pane;
      EXPECT_GE(sizes[name].height(), 800) << pane;
    }
    EXPECT_EQ(Find<QWidget>("massDock")->size(), dock) << "the window stays as it was";
  }
  // Maps are made when they are seen, and there is a picture when all of them are.
  auto* const maps = Find<ui::MapsView>("mapsView");
  EXPECT_EQ(maps->WhyNoPicture().isEmpty(), maps->num_made() == 8);
  Raise("mapsDock");
  ASSERT_TRUE(WaitFor([&] { return maps->num_made() == 8; }));
  sizes[QStringLiteral("maps")] = width_of(QStringLiteral("maps"), QStringLiteral(".png"));
  canvas_->SetPictureWidth(2000);
  for (const auto& [name, size] : sizes) {
    const QSize chosen = width_of(name, QStringLiteral("-wide.png"));
    EXPECT_EQ(chosen.width(), 2000) << name.toStdString();
    EXPECT_NEAR(static_cast<double>(chosen.width()) / chosen.height(),
                static_cast<double>(size.width()) / size.height(), 0.03 * size.width() / size.height())
        << name.toStdString();
  }
}

TEST_F(ReachTest, AReportHasTheHeadsTheRunsAndPictures) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  Use("a-shape", "n_sink=4,n_local=32");
  ASSERT_TRUE(Finish(Command::kRun));
  const QString path = File(QStringLiteral("report.html"));
  AnswerFileDialog(path);
  ASSERT_TRUE(Finish(Command::kExportReport));
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(path); }));
  const QByteArray page = Contents(path);
  EXPECT_TRUE(page.contains("report-0-2.png")) << "the head on show";
  EXPECT_FALSE(QImage(File(QStringLiteral("report-0-2.png"))).isNull());
  // Drawn as the window's own map of it is.
  window_->commands()[Command::kOverlay]->setChecked(false);
  canvas_->SetOverlay(false);
  window_->commands()[Command::kCopyViewCommand]->trigger();
  QString command = QApplication::clipboard()->text().section(QStringLiteral(" -o "), 0, 0);
  command.replace(QRegularExpression(QStringLiteral("--size \\S+")), QStringLiteral("--size 800x800"));
  command.remove(QRegularExpression(QStringLiteral(" --range \\S+")));
  command.remove(QStringLiteral(" --ground dark"));
  command.remove(QStringLiteral(" --profiles"));
  EXPECT_TRUE(command.contains(QStringLiteral("--color-map viridis"))) << command.toStdString();
  const QString drawn = File(QStringLiteral("drawn.png"));
  RunInShell(command, drawn);
  ASSERT_FALSE(QImage(drawn).isNull());
  EXPECT_EQ(QImage(File(QStringLiteral("report-0-2.png"))), QImage(drawn)) << command.toStdString();
  EXPECT_TRUE(page.contains("a-shape"));
  EXPECT_TRUE(page.contains("Head 0:2"));
}

// Once out of the window, a table is all there is: each of its rows says of what it is, and the dense row that runs
// stand beside said nothing.
TEST_F(ReachTest, EveryRowOfATableSaysWhereItIsFrom) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  Use("a-shape", "n_sink=4,n_local=32");
  ASSERT_TRUE(Finish(Command::kRun));
  struct Table {
    Command command;
    const char *file, *list, *date;
    qsizetype rows;
  };
  for (const Table& table : {Table{Command::kExportHeads, "heads", "heads", "written_at", 8},
                             Table{Command::kExportRuns, "runs", "results", "measured_at", 2}}) {
    const QString json = File(QLatin1String(table.file) + QStringLiteral(".json")),
                  csv = File(QLatin1String(table.file) + QStringLiteral(".csv"));
    for (const QString& path : {json, csv}) {
      AnswerFileDialog(path);
      window_->commands()[table.command]->trigger();
      ASSERT_TRUE(WaitFor([&] { return QFile::exists(path); }));
    }
    const QJsonArray rows = QJsonDocument::fromJson(Contents(json))[QLatin1String(table.list)].toArray();
    EXPECT_EQ(rows.size(), table.rows);
    for (const QJsonValue& row : rows) {
      EXPECT_EQ(row[QStringLiteral("trace")].toString(), trace_path());
      EXPECT_EQ(row[QStringLiteral("model")].toString(), QStringLiteral("small"));
      EXPECT_EQ(row[QStringLiteral("device")].toString(), QStringLiteral("cpu"));
      EXPECT_FALSE(row[QStringLiteral("version")].toString().isEmpty());
      EXPECT_TRUE(QDateTime::fromString(row[QLatin1String(table.date)].toString(), Qt::ISODate).isValid());
    }
    EXPECT_EQ(Contents(csv).count(trace_path().toUtf8()), table.rows) << Contents(csv).toStdString();
  }
}

// It named a file of runs that nobody had exported.
TEST_F(ReachTest, ACopiedFigureOfMeasuredRunsIsDrawnInATerminal) {
  Open();
  Use("a-shape", "n_sink=4,n_local=32");
  ASSERT_TRUE(Finish(Command::kRun));
  ui::FigureStudy& figures = window_->state()->figures;
  figures.Choose(QStringLiteral("intensity"));
  ASSERT_TRUE(WaitFor([&] { return figures.picture() != nullptr; }, 120000)) << "the machine is measured, too";
  window_->commands()[Command::kCopyFigureCommand]->trigger();
  const QString command = QApplication::clipboard()->text().section(QStringLiteral(" -o "), 0, 0);
  ASSERT_TRUE(command.contains(QStringLiteral("--runs "))) << command.toStdString();
  const QJsonObject drawn = RunInShell(command, File(QStringLiteral("figure.json")));
  QStringList names;
  for (const QJsonValue& panel : drawn[QStringLiteral("panels")].toArray()) {
    for (const QJsonValue& series : panel[QStringLiteral("series")].toArray())
      names.append(series[QStringLiteral("name")].toString());
  }
  EXPECT_TRUE(names.contains(QStringLiteral("a-shape"))) << names.join(u'|').toStdString();
}

// The frame of what has the keyboard was in the picture of a chart.
TEST_F(ReachTest, APictureOfAPaneIsTheSameWhereverTheKeyboardIs) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  auto* chart = Find<ui::MassChart>("massChart");
  QList<QImage> pictures;
  for (QWidget* focus : {static_cast<QWidget*>(canvas_), static_cast<QWidget*>(chart)}) {
    focus->setFocus();
    ASSERT_TRUE(focus->hasFocus());
    const QString path = File(QStringLiteral("kept-mass-%1.png").arg(pictures.size()));
    for (const ui::PaneOffers::Picture& picture : window_->state()->offers.pictures()) {
      if (picture.name == u"kept-mass") {
        EXPECT_EQ(picture.write(path, 0), QString());
      }
    }
    pictures.append(QImage(path));
    ASSERT_FALSE(pictures.back().isNull());
    ASSERT_TRUE(focus->hasFocus());
  }
  EXPECT_EQ(pictures[0], pictures[1]);
}

// Chosen on the open trace, reported on another one, as `headscope tune --check` has it.
TEST_F(ReachTest, ATuningIsTriedOnHeldOutTraces) {
  Open();
  const QString other = File(QStringLiteral("held-out.h5"));
  ASSERT_EQ(QProcess::execute(QStringLiteral(HEADSCOPE_PROGRAM),
                              {QStringLiteral("export"), trace_path(), QStringLiteral("--tokens"),
                               QStringLiteral("0:300"), QStringLiteral("-o"), other}),
            0);
  Use("streaming-llm", "n_dilated=0");
  window_->commands()[Command::kTuneDialog]->trigger();
  auto* dialog = Find<ui::TuneDialog>("tuneDialog");
  ASSERT_TRUE(WaitFor([&] { return dialog->isVisible(); }));
  AnswerFileDialog(other);
  Find<QPushButton>("tuneAddCheck")->click();
  ASSERT_EQ(Find<QListWidget>("tuneChecks")->count(), 1);
  ASSERT_EQ(dialog->settings().checks, (std::vector<std::string>{other.toStdString()}));
  Find<QPushButton>("tuneCopy")->click();
  const QString command = QApplication::clipboard()->text();
  EXPECT_TRUE(command.contains(QStringLiteral("--check"))) << command.toStdString();
  Find<QPushButton>("tuneStart")->click();
  ASSERT_TRUE(WaitFor([&] { return !window_->state()->sweep.running(); }, 120000));
  ASSERT_EQ(window_->state()->sweep.Tuned().size(), 8U) << window_->state()->sweep.Summary().toStdString();
  EXPECT_TRUE(window_->state()->sweep.Summary().contains(QStringLiteral("On the held-out traces")));
  const QString saved = File(QStringLiteral("checked.json"));
  AnswerFileDialog(saved);
  window_->commands()[Command::kExportTuning]->trigger();
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(saved); }));
  const QJsonObject told = RunInShell(command, File(QStringLiteral("command.json")));
  const QJsonObject exported = QJsonDocument::fromJson(Contents(saved)).object();
  EXPECT_FALSE(told[QStringLiteral("heads")].toArray().isEmpty());
  EXPECT_EQ(exported[QStringLiteral("heads")], told[QStringLiteral("heads")]);
  // The matrix can show it.
  window_->store()->SetMetric("result.checked_cra_p5");
  EXPECT_FALSE(std::isnan(window_->store()->MetricOf({1, 3})));

  // Rows of the open trace itself, without another one.
  window_->commands()[Command::kTuneDialog]->trigger();
  ASSERT_TRUE(WaitFor([&] { return dialog->isVisible(); }));
  Find<QListWidget>("tuneChecks")->selectAll();
  Find<QPushButton>("tuneRemoveChecks")->click();
  auto* rows = Find<QLineEdit>("tuneCheckRows");
  rows->setText(QStringLiteral("some"));
  EXPECT_FALSE(Find<QPushButton>("tuneStart")->isEnabled());
  EXPECT_TRUE(
      Find<QPushButton>("tuneStart")->toolTip().startsWith(QStringLiteral("Held-out rows \"some\": it must be last:N")))
      << Find<QPushButton>("tuneStart")->toolTip().toStdString();
  rows->setText(QStringLiteral("every:4"));
  Find<QPushButton>("tuneCopy")->click();
  const QString by_rows = QApplication::clipboard()->text();
  EXPECT_TRUE(by_rows.contains(QStringLiteral("--check-rows every:4"))) << by_rows.toStdString();
  Find<QPushButton>("tuneStart")->click();
  ASSERT_TRUE(WaitFor([&] { return !window_->state()->sweep.running(); }, 120000));
  EXPECT_TRUE(window_->state()->sweep.Summary().contains(QStringLiteral("On the held-out rows")));
  const QString rows_saved = File(QStringLiteral("rows.json"));
  AnswerFileDialog(rows_saved);
  window_->commands()[Command::kExportTuning]->trigger();
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(rows_saved); }));
  const QJsonObject told_by_rows = RunInShell(by_rows, File(QStringLiteral("rows-command.json")));
  const QJsonObject by_rows_exported = QJsonDocument::fromJson(Contents(rows_saved)).object();
  EXPECT_FALSE(told_by_rows[QStringLiteral("heads")].toArray().isEmpty());
  EXPECT_EQ(QJsonDocument(Undated(by_rows_exported)).toJson().toStdString(),
            QJsonDocument(Undated(told_by_rows)).toJson().toStdString());
  rows->clear();

  // One that is no use says so, and nothing is tuned by halves.
  ui::TuneSettings itself = dialog->settings();
  itself.checks = {trace_path().toStdString()};
  window_->state()->sweep.Tune(itself);
  ASSERT_TRUE(WaitFor([&] { return !window_->state()->sweep.running(); }));
  EXPECT_TRUE(window_->state()->sweep.failures().join(u' ').contains(QStringLiteral("would agree with itself")));
}

}  // namespace
}  // namespace headscope::gui_test
