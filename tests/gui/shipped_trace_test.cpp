// SPDX-License-Identifier: Apache-2.0
// What a person does with the window, from the first screen to the exported tables, on the trace that headscope shows
// at its first start. Numbers are held against the trace's own Q, K and LSE, multiplied here in float64.
#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QFile>
#include <QHeaderView>
#include <QHelpEvent>
#include <QImage>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QLineEdit>
#include <QTableView>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "analysis/types/color_map.h"
#include "analysis/types/value_scale.h"
#include "data/trace_reader.h"
#include "head_of_row.h"
#include "head_table.h"
#include "set_repeats.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

// One head's probabilities from the file itself.
class TraceOracle {
 public:
  TraceOracle(const std::string& path, HeadId head) : reader_(path) {
    layer_ = reader_.LayerSlot(head.layer);
    head_ = reader_.QoHeadSlot(layer_, head.head);
    kv_head_ = reader_.KvHeadSlot(layer_, head.head / reader_.layer(layer_).GroupSize());
  }
  double Probability(int64_t row, int64_t column) const {
    const std::vector<float> q = Read(&data::TraceReader::ReadQ, head_, row),
                             k = Read(&data::TraceReader::ReadK, kv_head_, column);
    double dot = 0;
    for (size_t i = 0; i < q.size(); ++i) dot += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    float lse = 0;
    reader_.ReadLse(layer_, head_, row, row + 1, &lse);
    return std::exp(dot * static_cast<double>(reader_.layer(layer_).softmax_scale) - static_cast<double>(lse));
  }
  const data::TraceReader& reader() const { return reader_; }

 private:
  using ReadFunction = void (data::TraceReader::*)(int32_t, int32_t, int64_t, int64_t, void*) const;
  std::vector<float> Read(ReadFunction read, int32_t slot, int64_t at) const {
    const auto head_dim = static_cast<size_t>(reader_.layer(layer_).head_dim);
    std::vector<uint32_t> raw(head_dim);  // room for the widest encoding
    (reader_.*read)(layer_, slot, at, at + 1, raw.data());
    std::vector<float> values(head_dim);
    data::DecodeToFloat(raw.data(), reader_.layout().encoding, static_cast<int64_t>(head_dim), values.data());
    return values;
  }

  data::TraceReader reader_;
  int32_t layer_ = 0, head_ = 0, kv_head_ = 0;
};

class ShippedTraceTest : public ShellTest {
 protected:
  void Open() {
    OpenWindow(ShippedTrace());
    canvas_ = window_->canvas();
    ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
  }
  void Key(int key, Qt::KeyboardModifiers modifiers = {}) {
    window_->activateWindow();  // a dialog may just have closed, and shortcuts belong to the active window
    ASSERT_TRUE(QTest::qWaitForWindowActive(window_.get()));
    QTest::keyClick(window_.get(), static_cast<Qt::Key>(key), modifiers);
  }
  void MoveTo(QPointF at) {
    QMouseEvent event(QEvent::MouseMove, at, canvas_->mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
    QApplication::sendEvent(canvas_, &event);
  }
  void ClickControl(const QString& name) {
    ASSERT_TRUE(WaitForCanvas(60000));  // the panel is as large as it will be
    ASSERT_FALSE(canvas_->PanelControl(name).isNull()) << name.toStdString() << " is not on the panel";
    const QPoint at = canvas_->PanelControl(name).center().toPoint();
    MoveTo(at);
    QTest::mousePress(canvas_, Qt::LeftButton, {}, at);
    QTest::mouseRelease(canvas_, Qt::LeftButton, {}, at);
    ASSERT_TRUE(WaitForCanvas(60000));
  }
  QColor ColorOf(int64_t row, int64_t column) const {
    const QImage image = canvas_->grabFramebuffer();
    return image.pixelColor((canvas_->PixelOf(row, column) * image.devicePixelRatio()).toPoint());
  }
  // The canvas' colour of a probability.
  QColor ColorOfProbability(double probability) const {
    const QJsonObject state = canvas_->ViewState();
    const analysis::ValueRange range{static_cast<float>(state["range_log2_min"].toDouble()),
                                     static_cast<float>(state["range_log2_max"].toDouble())};
    const float place = analysis::ScalePosition(static_cast<float>(std::log2(probability)), range,
                                                canvas_->scale() == ui::ColorScale::kLogarithmic);
    const auto* colors = analysis::FindColorMap(canvas_->color_map().toStdString());
    const analysis::Rgb color = analysis::ColorAt(colors->palette, static_cast<double>(place));
    return {color.red, color.green, color.blue};
  }
  static void ExpectNear(const QColor& shown, const QColor& expected, const char* what) {
    EXPECT_NEAR(shown.red(), expected.red(), 4) << what;
    EXPECT_NEAR(shown.green(), expected.green(), 4) << what;
    EXPECT_NEAR(shown.blue(), expected.blue(), 4) << what;
  }
  double ScoresPerPixel() const {
    return canvas_->ViewState()[QStringLiteral("view")].toObject()[QStringLiteral("scores_per_pixel")].toDouble();
  }
  static int ColumnOf(const QTableView* table, const QString& metric) {
    for (int column = 0; column < table->model()->columnCount(); ++column) {
      if (table->model()->headerData(column, Qt::Horizontal, ui::HeadTableModel::kMetricNameRole) == metric)
        return column;
    }
    return -1;
  }

  ui::HeadCanvas* canvas_ = nullptr;
};

TEST_F(ShippedTraceTest, MatrixAndTableShowAndSelectTheSameHeads) {
  Open();
  ui::HeadStore& store = *window_->store();
  auto* strip = Find<ui::ProgressStrip>("progressStrip");
  ASSERT_TRUE(WaitFor([&] { return store.AllStatistics().size() == 80; }, 120000));
  if (strip->IsBusy()) {
    // The exact numbers are on their way: with a rate, a remaining time, and a button that ends it.
    ASSERT_TRUE(WaitFor([&] { return strip->findChild<QLabel*>()->text().contains(QStringLiteral(" left")); }, 60000));
    EXPECT_TRUE(strip->findChild<QLabel*>()->text().contains(QStringLiteral("heads/s")));
    QTest::mouseClick(Find<QToolButton>("progressCancel"), Qt::LeftButton);
    EXPECT_FALSE(strip->IsBusy());
    EXPECT_FALSE(strip->isVisible());
  }

  // The tooltip of a cell: the head, its class with the reason, and the first five numbers of a report with their
  // values.
  auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  const HeadId head{4, 3};
  const QPoint cell = *matrix->CellCentre(head);
  QHelpEvent help(QEvent::ToolTip, cell, matrix->mapToGlobal(cell));
  QApplication::sendEvent(matrix, &help);
  const QString tip = QToolTip::text();
  EXPECT_TRUE(tip.contains(QStringLiteral("Layer 4, head 3")) && tip.contains(QStringLiteral("KV head 1")));
  const analysis::HeadStatistics statistics = *store.Find(head);
  EXPECT_TRUE(tip.contains(QString::fromLatin1(analysis::HeadClassName(statistics.head_class))));
  int listed = 0;
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    if (!metric.in_report || metric.name == store.metric() || listed++ >= 5) continue;
    EXPECT_TRUE(tip.contains(QString::fromStdString(metric.title).toHtmlEscaped())) << metric.title;
    EXPECT_TRUE(tip.contains(ui::FormatMetric(analysis::MetricValue(statistics, metric.name)))) << metric.name;
  }

  // A click on a metric's title sorts by it, another one turns the order round.
  auto* table = Find<QTableView>("headTable");
  const int column = ColumnOf(table, QStringLiteral("sparsity_0.95"));
  ASSERT_GE(column, 0);
  QHeaderView* header = table->horizontalHeader();
  for (int click = 0; click < 2; ++click) {
    QTest::mouseClick(header->viewport(), Qt::LeftButton, {},
                      {header->sectionViewportPosition(column) + 12, header->height() / 2});
    ASSERT_EQ(header->sortIndicatorSection(), column);
    for (int row = 1; row < table->model()->rowCount(); ++row) {
      const double above = analysis::MetricValue(*store.Find(HeadOfRow(table, row - 1)), "sparsity_0.95");
      const double below = analysis::MetricValue(*store.Find(HeadOfRow(table, row)), "sparsity_0.95");
      if (header->sortIndicatorOrder() == Qt::AscendingOrder) {
        EXPECT_LE(above, below) << row;
      } else {
        EXPECT_GE(above, below) << row;
      }
    }
  }

  // Selection: table to matrix and map, matrix to table, and by arrows.
  table->scrollToTop();
  const HeadId best = HeadOfRow(table, 2);
  QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualRect(table->model()->index(2, 0)).center());
  EXPECT_EQ(store.selected(), best);
  EXPECT_EQ(canvas_->head(), best);
  QTest::mouseClick(matrix, Qt::LeftButton, {}, cell);
  EXPECT_EQ(store.selected(), head);
  EXPECT_EQ(HeadOfRow(table, table->currentIndex().row()), head);
  EXPECT_TRUE(table->viewport()->rect().intersects(table->visualRect(table->currentIndex()))) << "scrolled into sight";
  QTest::keyClick(matrix, Qt::Key_Down);
  EXPECT_EQ(HeadOfRow(table, table->currentIndex().row()), (HeadId{5, 3}));

  // A filter by class shows that class only, and does not open another head.
  const auto class_name = QString::fromLatin1(analysis::HeadClassName(statistics.head_class));
  QTest::keyClicks(Find<QLineEdit>("headFilter"), class_name);
  ASSERT_GT(table->model()->rowCount(), 0);
  ASSERT_LT(table->model()->rowCount(), 80);
  for (int row = 0; row < table->model()->rowCount(); ++row)
    EXPECT_EQ(table->model()->index(row, ui::HeadTableModel::kClass).data().toString(), class_name);
  EXPECT_EQ(store.selected(), (HeadId{5, 3}));
}

TEST_F(ShippedTraceTest, MapShowsTheProbabilitiesOfTheTrace) {
  Open();
  window_->commands()[Command::kCancelWork]->trigger();
  const HeadId head{4, 3};
  window_->store()->Select(head);
  const TraceOracle oracle(ShippedTrace().toStdString(), head);
  Key(Qt::Key_P, Qt::ControlModifier);                      // the panel away
  Key(Qt::Key_O, Qt::ControlModifier | Qt::ShiftModifier);  // the mask away
  ASSERT_TRUE(WaitForCanvas(60000));

  // A key of plain letters, far back.
  const std::vector<data::TokenRecord>& tokens = oracle.reader().tokens();
  const int64_t row = 3000;
  int64_t column = 1000;
  const auto is_word = [&](int64_t at) {
    const std::string& text = tokens[static_cast<size_t>(at)].text;
    return text.size() > 3 && std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  };
  while (!is_word(column)) ++column;

  // From the whole map down to that score by the wheel. The status bar names query, key and exact value.
  canvas_->GoTo(10, 10);
  Key(Qt::Key_F);
  ASSERT_TRUE(WaitForCanvas(60000));
  EXPECT_GT(ScoresPerPixel(), 4);
  canvas_->GoTo(row, column);
  const QPointF at = canvas_->PixelOf(row, column);
  MoveTo(at);
  for (int notch = 0; notch < 30; ++notch) {
    QWheelEvent wheel(at, canvas_->mapToGlobal(at), {}, {0, 120}, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase,
                      false);
    QApplication::sendEvent(canvas_, &wheel);
  }
  ASSERT_TRUE(WaitForCanvas(60000));
  EXPECT_LT(ScoresPerPixel(), 1.0 / 90);
  MoveTo(canvas_->PixelOf(row, column) + QPointF(3, 3));
  auto* label = Find<QLabel>("cursorLabel");
  ASSERT_TRUE(WaitFor([&] { return label->text().contains(QStringLiteral("p = ")); })) << label->text().toStdString();
  const QString text = label->text();
  EXPECT_TRUE(text.contains(QStringLiteral("query %1").arg(oracle.reader().row_positions()[static_cast<size_t>(row)])))
      << text.toStdString();
  EXPECT_TRUE(text.contains(QStringLiteral("key %1").arg(column))) << text.toStdString();
  EXPECT_TRUE(text.contains(QString::fromStdString(tokens[static_cast<size_t>(column)].text).trimmed()))
      << text.toStdString();
  const double shown = text.mid(text.indexOf(QStringLiteral("p = ")) + 4).toDouble();
  EXPECT_NEAR(shown / oracle.Probability(row, column), 1, 2e-3) << text.toStdString();

  // Single scores in colour, on both scales and with another palette, all by keys.
  canvas_->setFocus();
  for (int press = 0; press < 3; ++press) QTest::keyClick(canvas_, Qt::Key_Minus);  // no digits are written over it
  MoveTo({1, 1});                                                                   // no crosshair over it
  for (const char* what : {"logarithmic", "linear"}) {
    ASSERT_TRUE(WaitForCanvas(60000));
    ASSERT_EQ(canvas_->scale() == ui::ColorScale::kLogarithmic, std::string(what) == "logarithmic");
    for (const int64_t side : {-1, 0, 1})
      ExpectNear(ColorOf(row, column + side), ColorOfProbability(oracle.Probability(row, column + side)), what);
    Key(Qt::Key_L, Qt::ControlModifier);
  }
  auto* colors = Find<QComboBox>("colorBox");
  colors->setFocus();
  QTest::keyClicks(colors, QStringLiteral("mag"));
  EXPECT_EQ(canvas_->color_map(), QStringLiteral("magma"));
  ASSERT_TRUE(WaitForCanvas(60000));
  ExpectNear(ColorOf(row, column), ColorOfProbability(oracle.Probability(row, column)), "magma");

  // A texel of two by two scores: their largest, then their mean.
  canvas_->ZoomTo(2800, 3000, 900, 1100);
  const double height = 200 / ScoresPerPixel();
  canvas_->ZoomTo(2900, 2900 + static_cast<int64_t>(height * 1.05), 1000, 1010);
  ASSERT_GT(ScoresPerPixel(), 1);
  ASSERT_LT(ScoresPerPixel(), 1.2);
  QTest::keyClick(canvas_, Qt::Key_Escape);  // the mark of the score that was gone to runs through these
  for (const char* what : {"largest", "mean"}) {
    ASSERT_TRUE(WaitForCanvas(60000));
    const int64_t y = 3000, x = 1000;
    double most = 0, sum = 0;
    for (const auto& [down, right] : {std::pair<int, int>{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
      const double p = oracle.Probability(y + down, x + right);
      most = std::max(most, p);
      sum += p;
    }
    const bool largest = canvas_->reduction() == analysis::TileReduction::kMax;
    ASSERT_EQ(largest, std::string(what) == "largest");
    const QImage image = canvas_->grabFramebuffer();
    const QPointF middle = (canvas_->PixelOf(y, x) + canvas_->PixelOf(y + 1, x + 1)) / 2;
    ExpectNear(image.pixelColor((middle - QPointF(0.5, 0.5)).toPoint()), ColorOfProbability(largest ? most : sum / 4),
               what);
    Key(Qt::Key_M, Qt::ControlModifier);
  }

  // The profiles along the edges go and come back by the panel's box; the map takes their room.
  Key(Qt::Key_M, Qt::ControlModifier);
  Key(Qt::Key_F);
  Key(Qt::Key_P, Qt::ControlModifier);
  ClickControl(QStringLiteral("display"));
  const double right = canvas_->PixelOf(0, 4000).x();
  ClickControl(QStringLiteral("profiles"));
  EXPECT_GT(canvas_->PixelOf(0, 4000).x(), right);
  ClickControl(QStringLiteral("profiles"));
  EXPECT_DOUBLE_EQ(canvas_->PixelOf(0, 4000).x(), right);
}

TEST_F(ShippedTraceTest, RunsAndMapAreExported) {
  Open();
  window_->commands()[Command::kCancelWork]->trigger();
  analysis::MaskSummary live;
  QObject::connect(canvas_, &ui::HeadCanvas::MaskReady, canvas_,
                   [&](const ui::LiveMask& mask) { live = mask.summary; });
  window_->store()->Select({4, 3});
  ASSERT_TRUE(WaitForCanvas(60000));
  SetRepeats(canvas_, 1);
  Key(Qt::Key_F5);
  auto* table = Find<QTableView>("runsTable");
  ASSERT_TRUE(WaitFor([&] { return table->model()->rowCount() == 2; }, 120000))
      << Find<QLabel>("noticeText")->text().toStdString();
  ASSERT_TRUE(WaitForCanvas(60000));
  const std::vector<analysis::MethodResult> runs = static_cast<ui::RunsModel*>(table->model())->runs();
  EXPECT_EQ(runs[0].method, "dense");
  EXPECT_EQ(ScopeText(runs[1].head, runs[1].measured), "layer 4: 8 heads") << "a run measured its head alone";
  EXPECT_EQ(runs[1].method, live.method);
  EXPECT_DOUBLE_EQ(runs[1].kept_fraction, live.kept_fraction) << "a run and the live panel keep the same";
  EXPECT_NEAR(runs[1].cra_min, live.cra_min, 1e-5);
  EXPECT_NEAR(runs[1].cra_mean, live.cra_mean, 1e-5);

  const QString csv = File(QStringLiteral("runs.csv")), h5 = File(QStringLiteral("runs.h5")),
                png = File(QStringLiteral("map.png"));
  for (const QString& path : {csv, h5}) {
    AnswerFileDialog(path);
    Key(Qt::Key_E, Qt::ControlModifier);
    ASSERT_TRUE(QFile::exists(path)) << Find<QLabel>("noticeText")->text().toStdString();
  }
  // Another program reads both files back: the same columns, rows and numbers.
  const QString script = File(QStringLiteral("read.py")), said = File(QStringLiteral("read.json"));
  {
    QFile file(script);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(R"(
import csv, h5py, json, sys
rows = list(csv.DictReader(open(sys.argv[1], newline='')))
with h5py.File(sys.argv[2]) as f:
    columns = {name: [v.decode() if isinstance(v, bytes) else v for v in column[()].tolist()]
               for name, column in f['results'].items()}
for name in ('method', 'kept_fraction', 'cra_min', 'cra_p5', 'speedup'):
    for row, value in zip(rows, columns[name], strict=True):
        assert row[name] == value if isinstance(value, str) else abs(float(row[name]) - value) <= 1e-5 * abs(value), (name, row[name], value)
print(json.dumps([[r['method'], float(r['kept_fraction']), float(r['cra_min'])] for r in rows]))
)");
  }
  // Not by QProcess, whose vfork ThreadSanitizer takes for a fork of the process that it watches.
  const QString command =
      QStringLiteral("'%1' '%2' '%3' '%4' > '%5'").arg(QStringLiteral(HEADSCOPE_PYTHON), script, csv, h5, said);
  ASSERT_EQ(std::system(command.toLocal8Bit().constData()), 0);
  QFile output(said);
  ASSERT_TRUE(output.open(QIODevice::ReadOnly));
  const QJsonArray read = QJsonDocument::fromJson(output.readAll()).array();
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[1].toArray()[0].toString().toStdString(), runs[1].method);
  EXPECT_NEAR(read[1].toArray()[1].toDouble(), runs[1].kept_fraction, 1e-5);
  EXPECT_NEAR(read[1].toArray()[2].toDouble(), runs[1].cra_min, 1e-5);

  // The map with its title and legend at twice the window's pixels, without the room beside the square map.
  const bool light_window = canvas_->pictures_light();  // nothing has been chosen
  AnswerFileDialog(png, QStringLiteral("dark background"));
  Key(Qt::Key_E, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(png); }, 60000)) << Find<QLabel>("noticeText")->text().toStdString();
  EXPECT_TRUE(kind_at_first_.contains(light_window ? QStringLiteral("white") : QStringLiteral("dark")))
      << kind_at_first_.toStdString();
  const QImage image(png);
  EXPECT_LT(image.width(), 2 * canvas_->width() - 200);
  EXPECT_GT(image.height(), 1.5 * canvas_->height());  // notices that come and go change the height
  const auto light = [&](int top, int bottom) {
    int pixels = 0;
    for (int y = top; y < bottom; ++y) {
      for (int x = 0; x < image.width() / 2; ++x) pixels += qGray(image.pixel(x, y)) > 140;
    }
    return pixels;
  };
  EXPECT_GT(light(10, 100), 2000) << "the title";
  EXPECT_GT(light(image.height() - 120, image.height()), 2000) << "the caption";
  EXPECT_TRUE(WaitFor([&] { return !Find<ui::ProgressStrip>("progressStrip")->IsBusy(); }));
  EXPECT_LT(qGray(image.pixel(1, 1)), 40) << "the ground that was chosen";

  // On white when that is chosen in the dialog, which then begins with it, also after the next start.
  const QString paper = File(QStringLiteral("paper.png"));
  AnswerFileDialog(paper, QStringLiteral("white background"));
  Key(Qt::Key_E, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(paper); }, 60000));
  EXPECT_TRUE(kind_at_first_.contains(QStringLiteral("dark"))) << kind_at_first_.toStdString();
  EXPECT_EQ(QImage(paper).pixelColor(1, 1), QColor(Qt::white));
  Open();
  ASSERT_TRUE(WaitForCanvas(60000));
  AnswerFileDialog(File(QStringLiteral("again.png")));
  Key(Qt::Key_E, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(File(QStringLiteral("again.png"))); }, 60000));
  EXPECT_TRUE(kind_at_first_.contains(QStringLiteral("white background"))) << kind_at_first_.toStdString();
}

}  // namespace
}  // namespace headscope::gui_test
