// SPDX-License-Identifier: Apache-2.0
// What tests/extension adds by a file and a line, in the real window: the pane, and the methods and the statistic in
// the panes and menus that take them from their lists.
#include <QAction>
#include <QComboBox>
#include <QDockWidget>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMenu>
#include <QTableView>
#include <set>

#include "head_matrix.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

class ExtensionWindowTest : public ShellTest {
 protected:
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForStatistics());
    ASSERT_TRUE(WaitForCanvas());
    dock_ = Find<QDockWidget>("trialDock");
    label_ = Find<QLabel>("trialLabel");
    ASSERT_NE(dock_, nullptr);
    ASSERT_NE(label_, nullptr);
  }
  // What the pane should say once the mask is there, from the state alone.
  bool ShowsTheTrial() {
    const ui::MethodTrial& trial = window_->state()->trial;
    return WaitFor([&] {
      if (trial.mask_pending() || !trial.mask()) return false;
      const QString kept = QString::number(100 * trial.mask()->summary.kept_fraction, 'f', 2);
      return label_->text() == QStringLiteral("%1: %2\nkeeps %3 % of the pairs")
                                   .arg(QString::fromStdString(trial.method()->title),
                                        QString::fromStdString(trial.values().ToString(*trial.method())), kept);
    });
  }
  QDockWidget* dock_ = nullptr;
  QLabel* label_ = nullptr;
};

TEST_F(ExtensionWindowTest, ThePaneIsInViewMenuPaletteAndLayout) {
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_TRUE(window_->commands().menu(ui::CommandMenu::kView)->actions().contains(dock_->toggleViewAction()));
  EXPECT_EQ(dock_->toggleViewAction()->text(), QStringLiteral("Method on trial"));
  EXPECT_FALSE(dock_->isHidden());
  // The palette finds it by its title and leads to it where it was put away.
  dock_->toggleViewAction()->trigger();
  EXPECT_TRUE(dock_->isHidden());
  QTest::keyClick(window_.get(), Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  auto* input = Find<QLineEdit>("paletteInput");
  QTest::keyClicks(input, QStringLiteral("method on trial"));
  ASSERT_GT(Find<QListWidget>("paletteList")->count(), 0);
  EXPECT_EQ(Find<QListWidget>("paletteList")->item(0)->text(), QStringLiteral("Go to Method on trial"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_TRUE(WaitFor([&] { return !dock_->isHidden(); }, 3000));
  dock_->toggleViewAction()->trigger();
  EXPECT_TRUE(dock_->isHidden());
  // The layout is kept from window to window, and the first one comes back when it is asked for.
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_TRUE(dock_->isHidden());
  window_->commands()[ui::Command::kResetLayout]->trigger();
  EXPECT_FALSE(dock_->isHidden());
}

TEST_F(ExtensionWindowTest, ThePaneShowsWhatTheStateSays) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ui::MethodTrial& trial = window_->state()->trial;
  ASSERT_TRUE(trial.SelectMethod("every-nth"));
  ASSERT_TRUE(trial.SetValue("n_local", 16));
  ASSERT_TRUE(ShowsTheTrial()) << label_->text().toStdString();
  EXPECT_TRUE(label_->text().startsWith(QStringLiteral("Every n-th token: n_local=16,stride=64\n")));
  const double few = trial.mask()->summary.kept_fraction;
  ASSERT_TRUE(trial.SetValue("stride", 2));
  ASSERT_TRUE(ShowsTheTrial()) << label_->text().toStdString();
  EXPECT_GT(trial.mask()->summary.kept_fraction, few);
  // A decode method that keeps state and evicts is on trial like any other.
  ASSERT_TRUE(trial.SelectMethod("heavy-hitters"));
  ASSERT_TRUE(trial.SetValue("k", 32));
  ASSERT_TRUE(ShowsTheTrial()) << label_->text().toStdString();
  EXPECT_TRUE(label_->text().startsWith(QStringLiteral("Heavy hitters: k=32,recent_share=0.5\n")));
  EXPECT_LT(trial.mask()->summary.kept_fraction, 0.1);
}

TEST_F(ExtensionWindowTest, TheMethodsHaveSliders) {
  ASSERT_NO_FATAL_FAILURE(Open());
  // With one pane more the map is narrow, and the method's panel a title above it that unrolls for the list of methods.
  window_->canvas()->ToggleMethodList();
  ASSERT_TRUE(WaitForCanvas());
  window_->canvas()->ToggleMethodList();
  const ui::MethodTrial& trial = window_->state()->trial;
  for (const auto& [name, parameter] : {std::pair{"every-nth", "stride"}, {"heavy-hitters", "k"}}) {
    const auto found = std::find_if(trial.methods().begin(), trial.methods().end(),
                                    [&](const kernels::MethodSpec& spec) { return spec.name == name; });
    ASSERT_NE(found, trial.methods().end()) << name;
    const auto slider = std::find_if(found->parameters.begin(), found->parameters.end(),
                                     [&](const kernels::ParameterSpec& spec) { return spec.name == parameter; });
    ASSERT_NE(slider, found->parameters.end()) << parameter;
    EXPECT_EQ(ui::SliderEnd(*slider, window_->store()->trace()), kTokens) << "as many tokens as the trace has";
    // And it is on the panel, where it can be dragged.
    ASSERT_TRUE(window_->state()->trial.SelectMethod(name));
    ASSERT_TRUE(WaitFor([&] { return !window_->canvas()->PanelControl(parameter).isEmpty(); })) << name;
  }
}

TEST_F(ExtensionWindowTest, TheTaskIsInTheCaptureDialog) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->commands()[ui::Command::kCapture]->trigger();
  ASSERT_TRUE(WaitFor([&] { return window_->findChild<QComboBox*>(QStringLiteral("captureTask")) != nullptr; }));
  const auto* task = Find<QComboBox>("captureTask");
  EXPECT_GE(task->findText(QStringLiteral("counting")), 0);
}

TEST_F(ExtensionWindowTest, TheStatisticColoursTheMatrixAndFiltersTheTable) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->store()->SetMetric("effective_keys");
  EXPECT_EQ(window_->store()->metric(), "effective_keys");
  auto* box = Find<QComboBox>("metricBox");
  EXPECT_EQ(box->currentText(), QStringLiteral("Effective keys"));
  const auto* const matrix = Find<ui::HeadMatrix>("headMatrix");
  EXPECT_TRUE(WaitFor([&] {
    std::set<QRgb> colours;
    for (const analysis::HeadId& head : window_->store()->trace().heads)
      colours.insert(matrix->CellColor(head).value_or(QColor()).rgb());
    return colours.size() > 1;
  })) << "heads with different numbers have different colours";
  auto* filter = Find<QLineEdit>("headFilter");
  auto* table = Find<QTableView>("headTable");
  filter->setFocus();
  // Heads 0 and 1 of each layer look at one key; the others at many.
  QTest::keyClicks(filter, QStringLiteral("effective_keys>40"));
  EXPECT_EQ(table->model()->rowCount(), 4);
  filter->clear();
  QTest::keyClicks(filter, QStringLiteral("effective_keys<=40"));
  EXPECT_EQ(table->model()->rowCount(), 4);
}

}  // namespace
}  // namespace headscope::gui_test
