// SPDX-License-Identifier: Apache-2.0
// The real window over the real workbench, by mouse and keyboard.
#include <QAction>
#include <QComboBox>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QFile>
#include <QFileDialog>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMessageBox>
#include <QPlainTextEdit>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTableView>
#include <QTimer>
#include <QToolButton>
#include <map>

#include "analysis/types/color_map.h"
#include "head_table.h"
#include "qt_matrix_surface.h"
#include "set_repeats.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

TEST_F(ShellTest, StartShowsEveryHeadOfTheTrace) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(Find<QTableView>("headTable")->model()->rowCount(), 8);
  for (const HeadId head : window_->store()->trace().heads)
    EXPECT_TRUE(Find<ui::HeadMatrix>("headMatrix")->CellColor(head)) << head.layer << ':' << head.head;
  EXPECT_EQ(window_->canvas()->head(), (HeadId{0, 0}));
}

TEST_F(ShellTest, MatrixClickAndKeysOpenHeads) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  QTest::mouseClick(matrix, Qt::LeftButton, {}, *matrix->CellCentre({1, 2}));
  EXPECT_EQ(window_->canvas()->head(), (HeadId{1, 2}));
  QTest::keyClick(matrix, Qt::Key_Up);
  EXPECT_EQ(window_->canvas()->head(), (HeadId{0, 2}));
  QTest::keyClick(matrix, Qt::Key_Right);
  EXPECT_EQ(window_->canvas()->head(), (HeadId{0, 3}));
  QTest::keyClick(window_.get(), Qt::Key_Left, Qt::AltModifier);
  EXPECT_EQ(window_->canvas()->head(), (HeadId{0, 2}));
  QTest::keyClick(window_.get(), Qt::Key_Right, Qt::AltModifier);
  EXPECT_EQ(window_->canvas()->head(), (HeadId{0, 3}));
  QTest::keyClick(window_.get(), Qt::Key_Period);
  EXPECT_EQ(window_->canvas()->head(), (HeadId{1, 0}));
}

TEST_F(ShellTest, TableSortsFiltersAndOpensHeads) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  auto* table = Find<QTableView>("headTable");
  const int sink = [&] {
    for (int column = 0; column < table->model()->columnCount(); ++column) {
      if (table->model()->headerData(column, Qt::Horizontal, ui::HeadTableModel::kMetricNameRole) ==
          QStringLiteral("sink_mass"))
        return column;
    }
    return -1;
  }();
  ASSERT_GE(sink, 0);
  table->sortByColumn(sink, Qt::DescendingOrder);
  // Head 0 of either layer was made to look at the first token.
  EXPECT_EQ(table->model()->index(0, ui::HeadTableModel::kHead).data().toInt(), 0);
  EXPECT_EQ(table->model()->index(1, ui::HeadTableModel::kHead).data().toInt(), 0);
  QTest::keyClicks(Find<QLineEdit>("headFilter"), QStringLiteral("1: sink_mass>0.5"));
  ASSERT_EQ(table->model()->rowCount(), 1);
  QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualRect(table->model()->index(0, 0)).center());
  EXPECT_EQ(window_->canvas()->head(), (HeadId{1, 0}));
  EXPECT_FALSE(Find<QLabel>("noHeadMatches")->isVisible());
  Find<QLineEdit>("headFilter")->setText(QStringLiteral("sink_mass>2"));
  EXPECT_EQ(table->model()->rowCount(), 0);
  EXPECT_TRUE(Find<QLabel>("noHeadMatches")->isVisible());
}

TEST_F(ShellTest, ChosenMetricColoursTheMatrix) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  auto* box = Find<QComboBox>("metricBox");
  box->setFocus();
  QTest::keyClicks(box, QStringLiteral("Sink"));
  QTest::keyClick(box, Qt::Key_Return);
  ASSERT_EQ(window_->store()->metric(), "sink_mass");
  for (const HeadId head : window_->store()->trace().heads) {
    const double value = window_->store()->Find(head)->sink_mass;
    const analysis::Rgb color = analysis::ColorAt(analysis::SequentialPalette(), value);
    EXPECT_EQ(Find<ui::HeadMatrix>("headMatrix")->CellColor(head), ui::ToQt(color));
  }
}

TEST_F(ShellTest, DraggedParameterMovesTheMask) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  ui::HeadCanvas* canvas = window_->canvas();
  const auto values = canvas->method_values().values();
  QString name;
  for (const auto& [key, value] : values) {
    if (name.isEmpty() && !canvas->PanelControl(QString::fromStdString(key)).isNull())
      name = QString::fromStdString(key);
  }
  ASSERT_FALSE(name.isEmpty()) << "the panel shows no parameter of " << canvas->method().toStdString();
  const double before = canvas->method_values().Real(name.toStdString());
  QSignalSpy masks(canvas, &ui::HeadCanvas::MaskReady);
  const QRectF slider = canvas->PanelControl(name);
  const QPoint from = slider.center().toPoint(), to(static_cast<int>(slider.left() + slider.width() * 0.15), from.y());
  QElapsedTimer timer;
  QTest::mouseMove(canvas, from);
  QTest::qWait(50);
  QTest::mousePress(canvas, Qt::LeftButton, {}, from);
  QTest::qWait(50);
  timer.start();
  QTest::mouseMove(canvas, to);
  ASSERT_TRUE(WaitFor([&] { return canvas->method_values().Real(name.toStdString()) != before; }));
  const int seen = static_cast<int>(masks.count());
  ASSERT_TRUE(WaitFor([&] { return masks.count() > seen || canvas->IsSettled(); }));
  RecordProperty("mask_follows_ms", static_cast<int>(timer.elapsed()));
  QTest::mouseRelease(canvas, Qt::LeftButton, {}, to);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_GT(masks.count(), 0);
  // Back with one undo: a drag is one step.
  QTest::keyClick(window_.get(), Qt::Key_Z, Qt::ControlModifier);
  EXPECT_TRUE(WaitFor([&] { return canvas->method_values().Real(name.toStdString()) == before; }, 3000));
}

TEST_F(ShellTest, RunFillsTheTableAndExports) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(WaitForCanvas());
  auto* table = Find<QTableView>("runsTable");
  EXPECT_FALSE(window_->commands()[Command::kExportRuns]->isEnabled());
  QTest::keyClick(window_.get(), Qt::Key_R, Qt::ControlModifier);
  ASSERT_TRUE(WaitFor([&] { return table->model()->rowCount() == 2; }));
  using Model = ui::RunsModel;
  EXPECT_EQ(table->model()->index(0, Model::kMethod).data().toString(), QStringLiteral("dense"));
  EXPECT_EQ(table->model()->index(1, Model::kMethod).data().toString(), window_->canvas()->method());
  table->sortByColumn(Model::kSpeedup, Qt::AscendingOrder);
  EXPECT_EQ(table->model()->index(0, Model::kMethod).data().toString(), QStringLiteral("dense"));

  for (const QString& extension : {QStringLiteral("csv"), QStringLiteral("json"), QStringLiteral("h5")}) {
    const QString path = File(QStringLiteral("runs.") + extension);
    AnswerFileDialog(path);
    window_->commands()[Command::kExportRuns]->trigger();
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly))
        << extension.toStdString() << ": " << Find<QLabel>("noticeText")->text().toStdString();
    const QByteArray text = file.readAll();
    if (extension == u"csv") {
      EXPECT_EQ(text.count('\n'), 3) << text.toStdString();
      // Every kept mass of the table, to more digits. Counted from the end: the parameters, before, hold commas.
      const QList<QByteArray> titles = text.split('\n')[0].split(','), run = text.split('\n')[2].split(',');
      // Whatever the table shows is in the file.
      const std::map<int, const char*> fields = {
          {Model::kHead, "layer head"},
          {Model::kMethod, "method"},
          {Model::kPhase, "phase"},
          {Model::kMeasured, "measured"},
          {Model::kKept, "kept_fraction"},
          {Model::kSpeedup, "speedup"},
          {Model::kCraMin, "cra_min"},
          {Model::kCraFifth, "cra_p5"},
          {Model::kCraMean, "cra_mean"},
          {Model::kRelativeError, "relative_error"},
          {Model::kTotal, "select_ms attend_ms"},
          {Model::kSelect, "select_ms"},
          {Model::kAttend, "attend_ms"},
          {Model::kDense, "dense_attend_ms"},
          {Model::kMaxError, "max_error"},
          {Model::kCosine, "cosine"},
          {Model::kDenseBy, "baseline"},
          {Model::kChosenPer, "chosen_per"},
          {Model::kParameters, "parameters"},
          {Model::kNote, "note"},
      };
      for (const ui::RunColumn& column : ui::RunColumns()) {
        ASSERT_TRUE(fields.contains(column.column)) << column.title;
        for (const QByteArray& field : QByteArray(fields.at(column.column)).split(' '))
          EXPECT_TRUE(titles.contains(field)) << column.title << ": " << field.toStdString();
      }
      for (const auto& [name, column] : {std::pair{"cra_min", Model::kCraMin}, std::pair{"cra_p5", Model::kCraFifth},
                                         std::pair{"cra_mean", Model::kCraMean}}) {
        const qsizetype at = titles.indexOf(name);
        ASSERT_GE(at, 0) << name;
        EXPECT_NEAR(run[run.size() - titles.size() + at].toDouble(), table->model()->index(1, column).data().toDouble(),
                    6e-4)
            << name;
      }
    }
    if (extension == u"json") {
      EXPECT_FALSE(QJsonDocument::fromJson(text).isNull());
    }
    if (extension == u"h5") {
      EXPECT_TRUE(text.startsWith("\x89HDF"));
    }
  }
}

TEST_F(ShellTest, RunAllMeasuresEveryMethodAsThePanelHasIt) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  auto* table = Find<QTableView>("runsTable");
  // One method that was tried and left again, and the one on show.
  for (const auto& [name, parameters] :
       {std::pair{"block-sparse", "n_blocks=2"}, std::pair{"a-shape", "n_sink=64,n_local=128"}}) {
    const auto& methods = window_->canvas()->methods();
    const auto spec =
        std::find_if(methods.begin(), methods.end(), [&](const auto& method) { return method.name == name; });
    ASSERT_NE(spec, methods.end());
    kernels::ParameterValues values(*spec);
    ASSERT_EQ(values.Parse(*spec, parameters), "");
    ASSERT_TRUE(window_->canvas()->SetMethod(QLatin1String(name), values));
  }
  // With one dense row for each of the two phases. Two methods want what this trace lacks (queries before RoPE, lower
  // layers), and say so.
  const auto num_methods = static_cast<int>(workbench_->methods().size());
  workbench_->SetMeasuresAlone(true);  // an eighth of the layer's time
  SetRepeats(window_->canvas(), 1);
  window_->commands()[Command::kRunAll]->trigger();
  EXPECT_TRUE(WaitFor([&] { return table->model()->rowCount() >= num_methods - 2; }, 120000))
      << table->model()->rowCount() << " rows; " << Find<QLabel>("noticeText")->text().toStdString();
  std::map<std::string, std::string> parameters;
  for (const analysis::MethodResult& run : static_cast<ui::RunsModel*>(table->model())->runs())
    parameters[run.method] = run.parameters;
  EXPECT_EQ(parameters["block-sparse"], "n_blocks=2");
  EXPECT_EQ(parameters["a-shape"], "n_sink=64,n_local=128");
  EXPECT_EQ(
      parameters["sparq"],
      "r=32,k=128,compression_ratio=0,local_share=0.25,reallocate=auto,temperature=eq9,copies=two,group=probabilities")
      << "not touched: its defaults";
}

TEST_F(ShellTest, PaletteFindsAndRunsACommand) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  QTest::keyClick(window_.get(), Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  auto* input = Find<QLineEdit>("paletteInput");
  ASSERT_TRUE(input->isVisible());
  QTest::keyClicks(input, QStringLiteral("drk col"));
  EXPECT_EQ(Find<QListWidget>("paletteList")->item(0)->text(), QStringLiteral("Dark colours"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_FALSE(input->isVisible());
  EXPECT_EQ(window_->theme()->name(), QStringLiteral("dark"));
  EXPECT_TRUE(WaitFor([&] { return window_->palette().color(QPalette::Window).lightness() < 100; }, 3000));
}

TEST_F(ShellTest, GoToAndFindTokenCentreTheMap) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  ui::HeadCanvas* canvas = window_->canvas();
  const auto centred = [&](int64_t row, int64_t column) {
    const QPointF at = canvas->PixelOf(row, column);
    return std::abs(at.x() - canvas->width() / 2.0) < canvas->width() * 0.2 &&
           std::abs(at.y() - canvas->height() / 2.0) < canvas->height() * 0.2;
  };
  EXPECT_FALSE(centred(400, 35));
  QTest::keyClick(window_.get(), Qt::Key_G, Qt::ControlModifier);
  auto* input = Find<QLineEdit>("findInput");
  QTest::keyClicks(input, QStringLiteral("400, 35"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_TRUE(WaitFor([&] { return centred(400, 35); }, 3000));
  QTest::keyClick(window_.get(), Qt::Key_F, Qt::ControlModifier);
  QTest::keyClicks(input, QStringLiteral("NEEDLE"));
  EXPECT_EQ(Find<QLabel>("findResult")->text(), QStringLiteral("1 match"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_TRUE(Find<QLabel>("findResult")->text().contains(QStringLiteral("300")));
  EXPECT_TRUE(WaitFor([&] { return centred(300, 300); }, 3000));
  // The same token as a key of the query that was chosen, and of the last one when that does not see it.
  window_->state()->focus.Choose(450);
  QTest::keyClick(input, Qt::Key_Return, Qt::ControlModifier);
  EXPECT_TRUE(WaitFor([&] { return centred(450, 300); }, 3000));
  window_->state()->focus.Choose(200);
  QTest::keyClick(input, Qt::Key_Return, Qt::ControlModifier);
  EXPECT_EQ(window_->state()->focus.row(), 511);
}

TEST_F(ShellTest, SessionComesBack) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  window_->store()->Select({1, 3});
  window_->store()->SetMetric("entropy");
  window_->commands()[Command::kLogScale]->trigger();
  const bool logarithmic = window_->canvas()->scale() == ui::ColorScale::kLogarithmic;
  OpenWindow(QString());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(window_->canvas()->head(), (HeadId{1, 3}));
  EXPECT_EQ(window_->store()->metric(), "entropy");
  EXPECT_EQ(window_->canvas()->scale() == ui::ColorScale::kLogarithmic, logarithmic);
  EXPECT_EQ(window_->commands()[Command::kLogScale]->isChecked(), logarithmic);
}

TEST_F(ShellTest, StatisticsAreKeptForTheNextStart) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  const double kurtosis = analysis::RowMeanOf(*window_->store()->Find({1, 2}), "kurtosis");
  const QDir results(File(QStringLiteral("results")));
  ASSERT_TRUE(WaitFor([&] { return results.entryList({QStringLiteral("*.json")}).size() == 1; }));
  // A second start with numbers that only the file can have given.
  const QString path = results.filePath(results.entryList({QStringLiteral("*.json")}).front());
  QFile file(path);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  QJsonObject json = QJsonDocument::fromJson(file.readAll()).object();
  file.close();
  QJsonArray heads = json[QStringLiteral("heads")].toArray();
  for (qsizetype i = 0; i < heads.size(); ++i) {
    QJsonObject head = heads[i].toObject();
    QJsonArray means = head[QStringLiteral("row_means")].toArray();
    for (qsizetype j = 0; j < means.size(); ++j) {
      if (means[j][QStringLiteral("name")] == QStringLiteral("kurtosis"))
        means[j] =
            QJsonObject{{QStringLiteral("name"), QStringLiteral("kurtosis")}, {QStringLiteral("mean"), kurtosis + 100}};
    }
    head[QStringLiteral("row_means")] = means;
    heads[i] = head;
  }
  json[QStringLiteral("heads")] = heads;
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write(QJsonDocument(json).toJson());
  file.close();
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  EXPECT_NEAR(analysis::RowMeanOf(*window_->store()->Find({1, 2}), "kurtosis"), kurtosis + 100, 1e-6);
}

TEST_F(ShellTest, DocksFloatAndReturn) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  auto* dock = Find<QDockWidget>("matrixDock");
  dock->setFloating(true);
  ASSERT_TRUE(WaitFor([&] { return dock->isWindow() && dock->isVisible(); }));
  auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  QTest::mouseClick(matrix, Qt::LeftButton, {}, *matrix->CellCentre({1, 1}));
  EXPECT_EQ(window_->canvas()->head(), (HeadId{1, 1}));
  window_->commands()[Command::kResetLayout]->trigger();
  EXPECT_FALSE(dock->isFloating());
  EXPECT_TRUE(WaitForCanvas());
}

// Counts paint events of the window and all its children.
class PaintCounter : public QObject {
 public:
  int paints = 0;
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() == QEvent::Paint) ++paints;
    return QObject::eventFilter(watched, event);
  }
};

TEST_F(ShellTest, IdleWindowDrawsNothing) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(WaitForCanvas());
  window_->canvas()->setFocus();
  PaintCounter counter;
  qApp->installEventFilter(&counter);
  // Hover effects and the like may still be on their way on a busy machine: within ten seconds there is a whole one
  // without a paint, and no caret or animation has a longer period than that.
  bool idle = false;
  int64_t frames = 0;
  for (int second = 0; second < 10 && !idle; ++second) {
    counter.paints = 0;
    frames = window_->canvas()->frames_drawn();
    QTest::qWait(1000);
    idle = counter.paints == 0 && window_->canvas()->frames_drawn() == frames;
  }
  EXPECT_TRUE(idle) << counter.paints << " paint events and " << window_->canvas()->frames_drawn() - frames
                    << " frames in the last second";
  qApp->removeEventFilter(&counter);
}

TEST_F(ShellTest, BrokenFileIsOneSentenceAndTheWindowGoesOn) {
  QFile broken(File(QStringLiteral("broken.h5")));
  ASSERT_TRUE(broken.open(QIODevice::WriteOnly));
  broken.write("this is no HDF5 file");
  broken.close();
  OpenWindow(broken.fileName());
  auto* notice = Find<QFrame>("notice");
  ASSERT_TRUE(WaitFor([&] { return notice->isVisible(); }));
  EXPECT_TRUE(Find<QLabel>("noticeText")->text().contains(QStringLiteral("broken.h5")))
      << Find<QLabel>("noticeText")->text().toStdString();
  EXPECT_FALSE(window_->store()->HasTrace());
  QTest::mouseClick(Find<QToolButton>("noticeClose"), Qt::LeftButton);
  EXPECT_FALSE(notice->isVisible());
  window_->OpenPath(trace_path());
  EXPECT_TRUE(WaitForCanvas());
}

TEST_F(ShellTest, ExportWithoutASuffixAsksBeforeItReplacesAFile) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  const QString path = File(QStringLiteral("heads.csv"));
  QFile file(path);
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write("mine");
  file.close();
  AnswerFileDialog(File(QStringLiteral("heads")));
  int questions = 0;
  QTimer timer;
  QObject::connect(&timer, &QTimer::timeout, &timer, [&] {
    if (auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget())) {
      ++questions;
      box->button(QMessageBox::No)->click();
    } else if (auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget()); questions > 0 && dialog) {
      dialog->reject();
    }
  });
  timer.start(20);
  window_->commands()[Command::kExportHeads]->trigger();
  EXPECT_EQ(questions, 1);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_EQ(file.readAll(), QByteArray("mine"));
}

}  // namespace
}  // namespace headscope::gui_test
