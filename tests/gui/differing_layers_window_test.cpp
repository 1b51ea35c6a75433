// SPDX-License-Identifier: Apache-2.0
// The window on a trace whose layers differ in everything: keys of 192 and values of 128 components; other heads, a
// window, learned sinks and a soft cap; values that are a part of the keys.
#include <QLabel>
#include <algorithm>

#include "oracle_traces.h"
#include "set_repeats.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

double LearnedSinkMass(const analysis::HeadStatistics& statistics) {
  for (const analysis::RowMean& row : statistics.row_means) {
    if (row.name == "learned_sink_mass") return row.mean;
  }
  ADD_FAILURE() << "no learned_sink_mass";
  return 0;
}

TEST_F(ShellTest, LayersThatDifferAreShownMaskedAndMeasured) {
  const QString trace = File(QStringLiteral("differing.h5"));
  analysis::testing::WriteDifferingTrace(trace.toStdString());
  OpenWindow(trace);
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(WaitForCanvas());
  const std::vector<analysis::HeadId>& heads = window_->store()->trace().heads;
  ASSERT_EQ(heads.size(), 4U + 6 + 2);
  ui::HeadCanvas* const canvas = window_->canvas();
  for (const analysis::HeadId head : heads) {
    window_->store()->Select(head);
    ASSERT_TRUE(WaitForCanvas()) << head.layer << ":" << head.head;
    const analysis::HeadStatistics* statistics = window_->store()->Find(head);
    ASSERT_NE(statistics, nullptr);
    const double to_sink = LearnedSinkMass(*statistics);
    EXPECT_EQ(to_sink > 0, head.layer != 0) << head.layer << ":" << head.head;
    ASSERT_NE(canvas->mask(), nullptr) << Find<QLabel>("noticeText")->text().toStdString();
    EXPECT_LE(canvas->mask()->summary.cra_mean, 1 - to_sink + 1e-5) << "no mask keeps what a learned sink takes";
  }

  // A method for prompts and one for decode steps, on a head of each layer; the whole layer is measured.
  std::vector<analysis::MethodResult> runs;
  QObject::connect(canvas, &ui::HeadCanvas::RunFinished, canvas,
                   [&](const analysis::MethodResult& run) { runs.push_back(run); });
  for (const auto& [method, parameters] :
       {std::pair{"a-shape", "n_sink=4,n_local=40"}, std::pair{"quest", "page_size=4,budget=32,dense_layers=0"}}) {
    const auto& methods = canvas->methods();
    const auto spec = std::find_if(methods.begin(), methods.end(), [&](const auto& one) { return one.name == method; });
    ASSERT_NE(spec, methods.end());
    kernels::ParameterValues values(*spec);
    ASSERT_EQ(values.Parse(*spec, parameters), "");
    for (const auto& [layer, head] : {std::pair{0, 3}, {1, 4}, {3, 1}}) {
      window_->store()->Select({layer, head});
      ASSERT_TRUE(WaitForCanvas());
      ASSERT_TRUE(canvas->SetMethod(QLatin1String(method), values));
      const size_t before = runs.size();
      SetRepeats(canvas, 1);
      canvas->RunMethod();
      ASSERT_TRUE(WaitFor([&] { return runs.size() > before && !window_->state()->trial.running(); }))
          << method << " on " << layer << ":" << head << ": " << Find<QLabel>("noticeText")->text().toStdString();
      const analysis::MethodResult& run = runs.back();
      EXPECT_EQ(run.method, method);
      EXPECT_EQ(run.head, (analysis::HeadId{layer, head}));
      EXPECT_LT(run.kept_fraction, 1);
      // What decides is whether v is as wide as k, what the scale is and whether the sinks count: an executor that had
      // one of them wrong would be off by its whole output.
      EXPECT_LT(run.relative_error, run.cra_mean > 0.9 ? 0.5 : 2.0);
      EXPECT_LE(run.cra_mean, 1 - LearnedSinkMass(*window_->store()->Find(run.head)) + 0.05);
    }
  }
}

}  // namespace
}  // namespace headscope::gui_test
