// SPDX-License-Identifier: Apache-2.0
// Decode methods in the real window over the real workbench: what SparQ and the sliding window keep on the last queries
// or on a trace's own decode steps, held against Q, K and LSE multiplied here in float64; measured runs; how far they
// are; and keys that the model's own window has left behind.
#include <QLabel>
#include <QSignalSpy>
#include <QTableView>
#include <cmath>
#include <random>
#include <vector>

#include "data/trace_reader.h"
#include "data/trace_writer.h"
#include "set_repeats.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

// One layer, one head, fp32: `kPrompt` tokens read at once and `kGenerated` generated ones, in a model that looks back
// over `kWindow` tokens.
struct WindowedTrace {
  static constexpr int32_t kPrompt = 90, kGenerated = 10, kWindow = 40, kDim = 16;
  static constexpr int32_t kLength = kPrompt + kGenerated;
  std::vector<float> q, k, v, lse;

  double Score(int64_t row, int64_t column) const {
    double dot = 0;
    for (size_t i = 0; i < kDim; ++i)
      dot += static_cast<double>(q[static_cast<size_t>(row) * kDim + i]) *
             static_cast<double>(k[static_cast<size_t>(column) * kDim + i]);
    return dot / std::sqrt(static_cast<double>(kDim));
  }
  static int64_t Oldest(int64_t row) { return std::max<int64_t>(0, row + 1 - kWindow); }
  // log of the sum over the keys inside the window.
  double Lse(int64_t row) const {
    double sum = 0;
    for (int64_t column = Oldest(row); column <= row; ++column) sum += std::exp(Score(row, column));
    return std::log(sum);
  }
  double Mass(int64_t row, int64_t begin, int64_t end) const {
    double mass = 0;
    for (int64_t column = begin; column < end; ++column) mass += std::exp(Score(row, column) - Lse(row));
    return mass;
  }

  explicit WindowedTrace(const std::string& path) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (std::vector<float>* tensor : {&q, &k, &v}) {
      tensor->resize(size_t{kLength} * kDim);
      for (float& value : *tensor) value = normal(random);
    }
    data::TraceLayout layout;
    layout.model = {.name = "windowed",
                    .model_type = "llama",
                    .config_json = "{}",
                    .weights_sha256 = std::string(64, '0'),
                    .tokenizer_sha256 = std::string(64, '0'),
                    .num_layers = 1,
                    .num_qo_heads = 1,
                    .num_kv_heads = 1,
                    .head_dim = kDim};
    layout.layers = {0};
    layout.facts = {data::UsualFacts(layout.model)};
    layout.facts[0].window = kWindow;
    layout.encoding = ElementType::kFloat32;
    layout.prompt_source = "text";
    layout.max_tokens = kLength;
    std::vector<data::TokenRecord> tokens;
    std::vector<int32_t> positions;
    for (int32_t i = 0; i < kLength; ++i) {
      const bool generated = i >= kPrompt;
      tokens.push_back({.id = i,
                        .phase = generated ? data::TokenPhase::kDecode : data::TokenPhase::kPrompt,
                        .step = generated ? i - kPrompt + 1 : 0,
                        .text = " t" + std::to_string(i)});
      positions.push_back(i);
      lse.push_back(static_cast<float>(Lse(i)));
    }
    data::TraceWriter writer(path, layout, /*overwrite=*/true);
    writer.AppendTokens(tokens);
    writer.AppendRowPositions(positions);
    writer.Append({.layer_slot = 0,
                   .first_token = 0,
                   .num_tokens = kLength,
                   .first_row = 0,
                   .num_rows = kLength,
                   .q = q.data(),
                   .k = k.data(),
                   .v = v.data(),
                   .lse = lse.data()});
    writer.Finish();
  }
};

class LiveDecodeTest : public ShellTest {
 protected:
  void Open(const QString& path) {
    OpenWindow(path);
    ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
    window_->commands()[Command::kCancelWork]->trigger();  // the statistics, which take every core
    canvas_ = window_->canvas();
    ASSERT_TRUE(WaitForCanvas(60000));
  }
  void Click(const QString& name) {
    const QRectF control = canvas_->PanelControl(name);
    ASSERT_FALSE(control.isNull()) << name.toStdString() << " is not on the panel";
    MoveTo(control.center());
    QTest::mousePress(canvas_, Qt::LeftButton, {}, control.center().toPoint());
    QTest::mouseRelease(canvas_, Qt::LeftButton, {}, control.center().toPoint());
    ASSERT_TRUE(WaitForCanvas(60000));
    QTest::qWait(30);
  }
  void MoveTo(QPointF at, Qt::MouseButtons held = Qt::NoButton) {
    QMouseEvent event(QEvent::MouseMove, at, canvas_->mapToGlobal(at), Qt::NoButton, held, Qt::NoModifier);
    QApplication::sendEvent(canvas_, &event);
  }
  void Pick(const QString& method) {
    Click(QStringLiteral("method"));
    // The list is longer than the canvas is high: letters bring the entry into sight.
    QTest::keyClicks(canvas_, method.section(u'-', 0, 0));
    ASSERT_TRUE(WaitForCanvas(60000));
    QTest::qWait(50);  // the list has the height of what the letters leave
    Click(QStringLiteral("method:") + method);
    ASSERT_EQ(canvas_->method(), method);
    ASSERT_NE(canvas_->mask(), nullptr);
  }
  void DragTo(const QString& parameter, double share) {
    const QRectF slider = canvas_->PanelControl(parameter);
    ASSERT_FALSE(slider.isNull());
    const QPointF to(slider.left() + slider.width() * share, slider.center().y());
    MoveTo(slider.center());
    QTest::mousePress(canvas_, Qt::LeftButton, {}, slider.center().toPoint());
    MoveTo(to, Qt::LeftButton);
    QTest::mouseRelease(canvas_, Qt::LeftButton, {}, to.toPoint());
    ASSERT_TRUE(WaitForCanvas(60000));
    QTest::qWait(30);
  }
  int Value(const char* parameter) const { return canvas_->method_values().Integer(parameter); }

  ui::HeadCanvas* canvas_ = nullptr;
};

TEST_F(LiveDecodeTest, SparqIsDraggedOnTheLastQueriesAndMeasuredBesideDenseDecode) {
  Open(ShippedTrace());
  window_->store()->Select({4, 3});
  ASSERT_TRUE(WaitForCanvas(60000));
  Pick(QStringLiteral("sparq"));
  const ui::TraceSummary& trace = window_->store()->trace();
  EXPECT_EQ(trace.num_decode_rows, 0);
  ASSERT_NE(canvas_->mask()->steps, nullptr);
  ASSERT_EQ(canvas_->mask()->steps->steps.size(), 16u);
  EXPECT_EQ(canvas_->mask()->steps->end_row(), trace.num_rows);
  for (const analysis::KeptStep& step : canvas_->mask()->steps->steps) {
    int64_t kept = 0;
    for (const kernels::ColumnRange& range : step.kept) kept += range.end - range.begin;
    EXPECT_EQ(kept, Value("k"));
  }

  // More keys, more mass; one step of undo takes the drag back.
  const double before = canvas_->mask()->summary.cra_mean;
  const int k = Value("k");
  QTest::qWait(static_cast<int>(ui::ParameterHistory::kOneDragMs) + 100);
  DragTo(QStringLiteral("k"), 0.75);
  EXPECT_GT(Value("k"), 2 * k);
  EXPECT_GT(canvas_->mask()->summary.cra_mean, before);
  QTest::keyClick(window_.get(), Qt::Key_Z, Qt::ControlModifier);
  ASSERT_TRUE(WaitForCanvas(60000));
  EXPECT_EQ(Value("k"), k);
  EXPECT_EQ(canvas_->mask()->summary.cra_mean, before);
  DragTo(QStringLiteral("r"), 0.2);
  EXPECT_LT(Value("r"), 32);

  const analysis::MaskSummary live = canvas_->mask()->summary;
  SetRepeats(canvas_, 2);
  EXPECT_EQ(canvas_->mask()->chosen_per, kernels::ChosenPer::kKvHead) << "as the model attends";
  QTest::keyClick(window_.get(), Qt::Key_F5);
  auto* table = Find<QTableView>("runsTable");
  ASSERT_TRUE(WaitFor([&] { return table->model()->rowCount() == 2; }, 60000));
  const std::vector<analysis::MethodResult> runs = static_cast<ui::RunsModel*>(table->model())->runs();
  EXPECT_EQ(runs[0].method, "decode/dense");
  EXPECT_EQ(runs[1].method, "sparq");
  EXPECT_EQ(runs[1].chosen_per, kernels::ChosenPer::kKvHead);
  EXPECT_EQ(runs[1].measured.measure, analysis::Measure::kLayer);
  for (const analysis::MethodResult& run : runs) {
    EXPECT_EQ(run.phase, kernels::Phase::kDecode);
    EXPECT_THAT(run.baseline, ::testing::AnyOf("headscope", "LibTorch")) << "the faster of both";
  }
  EXPECT_EQ(runs[1].parameters, live.parameters);
  EXPECT_DOUBLE_EQ(runs[1].kept_fraction, live.kept_fraction) << "a run and the live panel keep the same";
  EXPECT_NEAR(runs[1].cra_min, live.cra_min, 1e-6);
  EXPECT_GT(runs[1].select.median_ms, 0);
  EXPECT_GT(runs[1].attend.median_ms, 0);
  // Alone, the head makes a choice of its own: the mask and the run both.
  canvas_->RestoreViewState({{QStringLiteral("measures_alone"), true}});
  ASSERT_TRUE(WaitForCanvas(60000));
  EXPECT_EQ(canvas_->mask()->chosen_per, kernels::ChosenPer::kQueryHead);
  const analysis::MaskSummary own = canvas_->mask()->summary;
  EXPECT_NE(own.cra_mean, live.cra_mean);
  QTest::keyClick(window_.get(), Qt::Key_F5);
  ASSERT_TRUE(WaitFor([&] { return table->model()->rowCount() == 4; }, 60000));
  for (const analysis::MethodResult& run : static_cast<ui::RunsModel*>(table->model())->runs()) {
    if (run.method != "sparq" || run.chosen_per != kernels::ChosenPer::kQueryHead) continue;
    EXPECT_EQ(run.measured.measure, analysis::Measure::kHead);
    EXPECT_NEAR(run.cra_mean, own.cra_mean, 1e-6);
  }
  EXPECT_NEAR(runs[1].speedup, runs[0].attend.median_ms / (runs[1].select.median_ms + runs[1].attend.median_ms), 1e-9);
}

// The trace's own decode steps, and the mass on them by the formula: the newest keys that the model's window leaves.
TEST_F(LiveDecodeTest, SlidingWindowIsTriedOnTheTracesDecodeSteps) {
  const QString path = File(QStringLiteral("windowed.h5"));
  const WindowedTrace trace(path.toStdString());
  Open(path);
  EXPECT_EQ(window_->store()->trace().num_decode_rows, WindowedTrace::kGenerated);
  kernels::ParameterValues values;
  for (const kernels::MethodSpec& spec : canvas_->methods()) {
    if (spec.name != "sliding-window") continue;
    values = kernels::ParameterValues(spec);
    ASSERT_EQ(values.Parse(spec, "n_local=12,n_sink=2"), "");
  }
  ASSERT_TRUE(canvas_->SetMethod(QStringLiteral("sliding-window"), values));
  ASSERT_TRUE(WaitForCanvas());
  const ui::LiveMask& mask = *canvas_->mask();
  ASSERT_EQ(mask.kept_mass.size(), static_cast<size_t>(WindowedTrace::kGenerated));
  EXPECT_EQ(mask.steps->first_row, WindowedTrace::kPrompt);
  for (int64_t row = WindowedTrace::kPrompt; row < WindowedTrace::kLength; ++row) {
    // The sinks lie behind the model's window.
    EXPECT_NEAR(static_cast<double>(mask.kept_mass[static_cast<size_t>(row - WindowedTrace::kPrompt)]),
                trace.Mass(row, row - 11, row + 1), 1e-4)
        << row;
  }
  EXPECT_NEAR(mask.summary.kept_fraction, 12.0 / WindowedTrace::kWindow, 1e-12);
}

TEST_F(LiveDecodeTest, KeysBehindTheModelsWindowAreNotCalledVisible) {
  const QString path = File(QStringLiteral("windowed.h5"));
  const WindowedTrace trace(path.toStdString());
  Open(path);
  const analysis::HeadId head{0, 0};
  for (const auto& [row, column] : {std::pair<int64_t, int64_t>{80, 41}, {80, 40}, {20, 0}, {80, 81}}) {
    const ui::Exact exact = workbench_->ExactScore(head, row, column);
    EXPECT_EQ(exact.causal, column <= row) << row << ", " << column;
    EXPECT_EQ(exact.in_window, column >= WindowedTrace::Oldest(row)) << row << ", " << column;
    const bool visible = exact.causal && exact.in_window;
    EXPECT_NEAR(exact.probability, visible ? trace.Mass(row, column, column + 1) : 0, 1e-5) << row << ", " << column;
  }
}

TEST_F(LiveDecodeTest, ALongRunTellsItsRepeatsAndIsCancelledAmongThem) {
  Open(ShippedTrace());
  QSignalSpy progressed(canvas_, &ui::HeadCanvas::RunProgressed);
  QSignalSpy finished(canvas_, &ui::HeadCanvas::RunFinished);
  SetRepeats(canvas_, 100);
  QTest::keyClick(window_.get(), Qt::Key_F5);
  ASSERT_TRUE(WaitFor(
      [&] {
        for (const auto& report : progressed) {
          if (report[0].value<ui::ProgressReport>().stage.find(" of 100") != std::string::npos) return true;
        }
        return false;
      },
      60000));
  const auto report = progressed.back()[0].value<ui::ProgressReport>();
  EXPECT_EQ(report.stage.rfind("Measuring ", 0), 0u) << report.stage;
  EXPECT_GT(report.fraction, 0);
  EXPECT_LT(report.fraction, 1);
  auto* strip = Find<ui::ProgressStrip>("progressStrip");
  EXPECT_TRUE(strip->findChild<QLabel*>()->text().contains(QStringLiteral(" of 100")))
      << strip->findChild<QLabel*>()->text().toStdString();
  ASSERT_TRUE(WaitFor([&] { return !canvas_->PanelControl(QStringLiteral("cancel")).isNull(); }));
  const QRectF cancel = canvas_->PanelControl(QStringLiteral("cancel"));
  MoveTo(cancel.center());
  QTest::mousePress(canvas_, Qt::LeftButton, {}, cancel.center().toPoint());
  QTest::mouseRelease(canvas_, Qt::LeftButton, {}, cancel.center().toPoint());
  EXPECT_TRUE(WaitFor([&] { return !window_->state()->trial.running(); }));
  const qsizetype reports = progressed.size();
  QTest::qWait(500);
  EXPECT_EQ(progressed.size(), reports) << "nothing more is heard of it";
  EXPECT_EQ(finished.size(), 0);
}

}  // namespace
}  // namespace headscope::gui_test
