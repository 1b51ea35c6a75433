// SPDX-License-Identifier: Apache-2.0
// A part that was cut out of a longer trace: the window says how much of the attention no mask of it can keep.
#include <QProcess>

#include "head_matrix.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

TEST_F(ShellTest, ACutTraceSaysHowMuchOfTheAttentionLiesOutside) {
  const QString cut = File(QStringLiteral("cut.h5"));
  ASSERT_EQ(QProcess::execute(QStringLiteral(HEADSCOPE_PROGRAM),
                              {QStringLiteral("export"), trace_path(), QStringLiteral("--tokens"),
                               QStringLiteral("200:400"), QStringLiteral("-o"), cut}),
            0);
  OpenWindow(cut);
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(WaitForCanvas(60000));
  const ui::LiveMask* mask = window_->canvas()->mask();
  ASSERT_NE(mask, nullptr);
  const analysis::HeadStatistics* statistics = window_->store()->Find(window_->canvas()->head());
  EXPECT_GT(mask->outside_mass, 0.01);
  EXPECT_NEAR(mask->outside_mass, statistics->outside_mass, 1e-5) << "the metric counts it row by row as well";
  EXPECT_LE(mask->summary.cra_mean, 1 - mask->outside_mass + 1e-6) << "CRA is a share of the whole attention";
  EXPECT_TRUE(WaitFor([&] { return !window_->canvas()->PanelControl(QStringLiteral("outside")).isNull(); }));

  auto* matrix = window_->findChild<ui::HeadMatrix*>();
  ASSERT_NE(matrix, nullptr);
  EXPECT_TRUE(matrix->ToolTip(window_->canvas()->head()).contains(QStringLiteral("lies on tokens before the cut")));
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(WaitForCanvas(60000));
  EXPECT_EQ(window_->canvas()->mask()->outside_mass, 0);
  EXPECT_FALSE(window_->findChild<ui::HeadMatrix*>()->ToolTip({0, 0}).contains(QStringLiteral("cut")));
}

}  // namespace
}  // namespace headscope::gui_test
