// SPDX-License-Identifier: Apache-2.0
// The runs table in the real window: methods compared at equal kept mass, with the panel's parameters, and the way back
// from a measured run to what it measured.
#include <QLabel>
#include <QTableView>
#include <algorithm>
#include <string>
#include <vector>

#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class RunsTest : public ShellTest {
 protected:
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
    window_->store()->Select({0, 2});  // looks at random keys: every pair that a mask drops costs mass
    ASSERT_TRUE(WaitForCanvas());
    canvas_ = window_->canvas();
    view_ = Find<QTableView>("runsTable");
    model_ = static_cast<ui::RunsModel*>(view_->model());
  }
  const kernels::MethodSpec& Spec(const std::string& name) const {
    const auto& methods = canvas_->methods();
    return *std::find_if(methods.begin(), methods.end(), [&](const auto& spec) { return spec.name == name; });
  }
  void Use(const char* method, const std::string& parameters) {
    kernels::ParameterValues values(Spec(method));
    ASSERT_EQ(values.Parse(Spec(method), parameters), "");
    ASSERT_TRUE(canvas_->SetMethod(QLatin1String(method), values));
    ASSERT_TRUE(WaitForCanvas());
  }
  bool WaitForRuns(Command command) {
    window_->commands()[command]->trigger();
    auto* progress = Find<ui::ProgressStrip>("progressStrip");
    return WaitFor([&] { return model_->rowCount() > 0 && !progress->IsBusy(); }, 120000);
  }
  // The run of this method, or of its newest parameters.
  const analysis::MethodResult* RunOf(const std::string& method) const {
    const auto& runs = model_->runs();
    const auto found = std::find_if(runs.rbegin(), runs.rend(), [&](const auto& run) { return run.method == method; });
    return found == runs.rend() ? nullptr : &*found;
  }
  int RowOf(const std::string& method) const { return static_cast<int>(RunOf(method) - model_->runs().data()); }

  ui::HeadCanvas* canvas_ = nullptr;
  QTableView* view_ = nullptr;
  ui::RunsModel* model_ = nullptr;
};

// Whether a length beside its budget, at its default, is a good part of the trace: a window, a least budget, a block.
// SpargeAttn keeps every block of random keys: no mean stands for one; S2-Attention the first layers, one of which is
// on show.
bool KeepsAShortTraceUnasked(const kernels::MethodSpec& method) {
  return method.name == "sparge-attn" || method.name == "s2-attention" ||
         std::any_of(method.parameters.begin(), method.parameters.end(), [](const kernels::ParameterSpec& parameter) {
           return parameter.role == kernels::ParameterRole::kOther && parameter.unit == kernels::Unit::kTokens &&
                  parameter.default_value >= kTokens / 2;
         });
}

TEST_F(RunsTest, RunAllAtTheTargetMeasuresEachMethodWhereItKeepsThatMass) {
  Open();
  constexpr double kTarget = 0.6;
  window_->state()->trial.SetTarget(kTarget);
  Use("block-sparse", "n_blocks=3");
  ASSERT_TRUE(WaitForRuns(Command::kRunAllAtTarget));
  std::vector<kernels::MethodSpec> searched;
  for (const kernels::MethodSpec& method : canvas_->methods()) {
    if (ui::HasBudget(method) && method.phase == kernels::Phase::kPrefill) searched.push_back(method);
  }
  ASSERT_GE(searched.size(), 4u);
  for (const kernels::MethodSpec& spec : searched) {
    const std::string& method = spec.name;
    const analysis::MethodResult* run = RunOf(method);
    ASSERT_NE(run, nullptr) << method << ": " << Find<QLabel>("noticeText")->text().toStdString();
    EXPECT_EQ(run->head, (analysis::HeadId{0, 2}));
    EXPECT_GE(run->cra_p5, kTarget - 1e-6) << method;
    if (!KeepsAShortTraceUnasked(spec)) {
      EXPECT_LT(run->kept_fraction, 1) << method << " need not keep everything for that";
    }
  }
  EXPECT_EQ(model_->rowCount(), static_cast<int>(searched.size()) + 1) << "and one dense row";
  EXPECT_EQ(canvas_->method(), QStringLiteral("block-sparse"));
  EXPECT_EQ(canvas_->method_values().Integer("n_blocks"), 3) << "the panel keeps what was set there";
}

TEST_F(RunsTest, EnterOnARunShowsItsHeadAndWhatItMeasured) {
  Open();
  Use("a-shape", "n_sink=64,n_local=128");
  ASSERT_TRUE(WaitForRuns(Command::kRun));
  const double kept = RunOf("a-shape")->kept_fraction;
  Use("block-sparse", "n_blocks=2");
  window_->store()->Select({1, 3});
  ASSERT_TRUE(WaitForCanvas());

  view_->setFocus();
  view_->setCurrentIndex(model_->index(RowOf("a-shape"), 0));
  QTest::keyClick(view_, Qt::Key_Return);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(canvas_->head(), (analysis::HeadId{0, 2}));
  EXPECT_EQ(canvas_->method(), QStringLiteral("a-shape"));
  EXPECT_EQ(canvas_->method_values().Integer("n_sink"), 64);
  EXPECT_EQ(canvas_->method_values().Integer("n_local"), 128);
  ASSERT_NE(canvas_->mask(), nullptr);
  EXPECT_DOUBLE_EQ(canvas_->mask()->summary.kept_fraction, kept);
  // A step like any other change of parameters.
  window_->commands()[Command::kUndo]->trigger();
  EXPECT_EQ(canvas_->method(), QStringLiteral("block-sparse"));
}

TEST_F(RunsTest, ExportsProposeNamesThatSayOfWhatTheyAre) {
  Open();
  window_->store()->Select({1, 3});
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForRuns(Command::kRun));
  const auto proposed = [&](Command command, const char* name) {
    AnswerFileDialog(File(QLatin1String(name)));
    window_->commands()[command]->trigger();
    return name_at_first_.toStdString();
  };
  EXPECT_EQ(proposed(Command::kExportCanvas, "1.png"), "small-head-1-3.png");
  EXPECT_EQ(proposed(Command::kExportHeads, "1.csv"), "small-heads.csv");
  EXPECT_EQ(proposed(Command::kExportRuns, "2.csv"), "small-runs.csv");
}

TEST_F(RunsTest, AnotherTraceOpensOnTheSameHead) {
  Open();
  window_->store()->Select({1, 3});
  const QString other = File(QStringLiteral("other.h5"));
  WriteSmallTrace(other.toStdString());
  window_->OpenPath(other);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().path == other.toStdString(); }));
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(canvas_->head(), (analysis::HeadId{1, 3}));
}

}  // namespace
}  // namespace headscope::gui_test
