// SPDX-License-Identifier: Apache-2.0
// The table of measured runs: what was measured together stays together, and says how sure it is.
#include "runs_model.h"

#include <gtest/gtest.h>

#include <QLocale>
#include <string>

namespace headscope::ui {
namespace {

using analysis::MethodResult;
using Model = RunsModel;

MethodResult Measured(const std::string& method, kernels::Phase phase, analysis::Timing own, analysis::Timing dense) {
  MethodResult run;
  run.head = {8, 4};
  run.method = method;
  run.parameters = "n=1";
  run.phase = phase;
  run.baseline_method = phase == kernels::Phase::kDecode ? "decode/dense" : "dense";
  run.device = NamedCpu();
  run.attend = own;
  run.dense_attend = dense;
  run.speedup = dense.median_ms / own.median_ms;
  return run;
}

QString Cell(const Model& model, int row, int column) {
  return model.index(row, column).data().toString();
}

// A busy machine slows a run and the dense attention beside it alike; another run's baseline says nothing about it.
TEST(RunsTable, ARunKeepsTheBaselineThatItWasTimedWith) {
  Model model;
  model.Add(Measured("busy", kernels::Phase::kPrefill, {40, 2, 5}, {80, 4, 5}));
  model.Add(Measured("quiet", kernels::Phase::kPrefill, {20, 0.1, 7}, {30, 0.3, 7}));
  ASSERT_EQ(model.rowCount(), 3) << "one dense row for both";
  model.sort(Model::kSpeedup, Qt::DescendingOrder);
  EXPECT_EQ(Cell(model, 0, Model::kMethod), QStringLiteral("dense"));
  // It showed the latest run's, beside the speed-up of another.
  EXPECT_EQ(Cell(model, 0, Model::kAttend), QStringLiteral("–")) << "no one time belongs to both";
  EXPECT_NE(Cell(model, 0, Model::kNote), QString());
  EXPECT_EQ(Cell(model, 1, Model::kMethod), QStringLiteral("busy"));
  EXPECT_EQ(Cell(model, 1, Model::kDense), QStringLiteral("80.0 ± 4.0"));
  EXPECT_EQ(Cell(model, 2, Model::kDense), QStringLiteral("30.0 ± 0.3"));
  // What is exported: as it was measured.
  EXPECT_EQ(model.runs()[1].speedup, 2);
  EXPECT_EQ(model.runs()[1].dense_attend.median_ms, 80);
  EXPECT_EQ(model.runs()[2].speedup, 1.5);
  EXPECT_EQ(model.index(1, Model::kDense).data(Qt::ToolTipRole).toString(), QStringLiteral("5 repeats on cpu"));
}

// As everywhere in the window, whatever the system's language does to numbers.
TEST(RunsTable, CountsAreGroupedInOneWay) {
  const QLocale before;
  QLocale::setDefault(QLocale(QLocale::German));
  Model model;
  MethodResult run = Measured("a", kernels::Phase::kPrefill, {20, 0.1, 7}, {30, 0.3, 7});
  run.num_rows = 4090;
  model.Add(run);
  EXPECT_EQ(model.index(1, Model::kCraMean).data(Qt::ToolTipRole).toString(),
            QStringLiteral("CRA, mean of 4,090 rows"));
  QLocale::setDefault(before);
}

TEST(RunsTable, ASpeedUpSaysHowFarItsTimesScatter) {
  Model model;
  model.Add(Measured("firm", kernels::Phase::kPrefill, {20, 0.1, 7}, {30, 0.3, 7}));
  // 1.5 * (0.3 / 30 + 0.1 / 20)
  EXPECT_EQ(Cell(model, 1, Model::kSpeedup), QStringLiteral("1.50 ± 0.02×"));
  EXPECT_EQ(Cell(model, 0, Model::kSpeedup), QStringLiteral("1.00×")) << "by definition";
  MethodResult loose = Measured("loose", kernels::Phase::kDecode, {0.08, 0.01, 7}, {3.46, 1.76, 7});
  loose.select = {0.02, 0.01, 7};
  loose.speedup = 34.6;
  model.Add(loose);
  // 34.6 * (1.76 / 3.46 + 0.02 / 0.1)
  EXPECT_EQ(Cell(model, 3, Model::kSpeedup), QStringLiteral("34.6 ± 24.5×"));
}

TEST(RunsTable, TheDenseRowShowsItsTimeWhileItIsEveryRunsBaseline) {
  Model model;
  model.Add(Measured("a", kernels::Phase::kPrefill, {20, 0.1, 7}, {30, 0.3, 7}));
  EXPECT_EQ(Cell(model, 0, Model::kAttend), QStringLiteral("30.0 ± 0.3"));
  EXPECT_EQ(Cell(model, 0, Model::kNote), QString());
}

TEST(RunsTable, ALayerAndAHeadAloneAreTwoRunsWithADenseEach) {
  Model model;
  MethodResult layer = Measured("a", kernels::Phase::kDecode, {20, 0, 3}, {60, 0, 3}),
               alone = Measured("a", kernels::Phase::kDecode, {9, 0, 3}, {10, 0, 3});
  layer.measured = {analysis::Measure::kLayer, 8, 2, 8};
  alone.measured = {.measure = analysis::Measure::kHead};
  layer.num_rows = alone.num_rows = 16;
  model.Add(layer);
  model.Add(alone);
  ASSERT_EQ(model.rowCount(), 4);
  EXPECT_EQ(Cell(model, 0, Model::kMethod), QStringLiteral("decode/dense"));
  EXPECT_EQ(Cell(model, 0, Model::kMeasured), QStringLiteral("head 8:4 alone"));
  EXPECT_EQ(Cell(model, 0, Model::kAttend), QStringLiteral("10.0 ± 0.0"));
  EXPECT_EQ(Cell(model, 2, Model::kMeasured), QStringLiteral("layer 8: 8 heads"));
  EXPECT_EQ(Cell(model, 3, Model::kCraFifth), QStringLiteral("min of 16")) << "no quantile";
}

TEST(RunsTable, PartsOfALayerAreSeveralRunsAndStandInTheOrderOfTheirSize) {
  Model model;
  for (const int32_t heads : {10, 4}) {
    MethodResult run = Measured("a", kernels::Phase::kPrefill, {20, 0, 3}, {60, 0, 3});
    run.measured = {analysis::Measure::kLayer, heads, 2, 16};
    model.Add(run);
    model.Add(run);
  }
  ASSERT_EQ(model.rowCount(), 4);
  EXPECT_EQ(Cell(model, 0, Model::kMeasured), QStringLiteral("layer 8: 4 of 16 heads"));
  EXPECT_EQ(Cell(model, 2, Model::kMeasured), QStringLiteral("layer 8: 10 of 16 heads"));
}

TEST(RunsTable, ARunWithTheSameParametersTakesThePlaceOfTheOneBefore) {
  Model model;
  model.Add(Measured("a", kernels::Phase::kPrefill, {20, 0, 3}, {30, 0, 3}));
  model.Add(Measured("a", kernels::Phase::kPrefill, {10, 0, 3}, {30, 0, 3}));
  EXPECT_EQ(model.rowCount(), 2);
  EXPECT_EQ(model.runs()[1].speedup, 3);
  MethodResult other = Measured("a", kernels::Phase::kPrefill, {15, 0, 3}, {30, 0, 3});
  other.parameters = "n=2";
  model.Add(other);
  EXPECT_EQ(model.rowCount(), 3);
  EXPECT_EQ(model.NumUnsaved(), 2);
}

}  // namespace
}  // namespace headscope::ui
