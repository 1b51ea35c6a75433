// SPDX-License-Identifier: Apache-2.0
// What decode methods keep of a head's mass by how much less they read than dense attention (SparQ Attention, appendix
// G: compression ratio).
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/compare.h"
#include "analysis/head_sweeps.h"
#include "analysis/measured_heads.h"
#include "base/check_status.h"
#include "compare/decode_steps.h"
#include "compare/decode_walk.h"
#include "figures/figure_list.h"
#include "figures/first_of_class.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/decode_method.h"
#include "kernels/method_names.h"

namespace headscope::analysis {
namespace {

constexpr int32_t kSteps = 8;

struct Point {
  std::string method;                // its title
  double compression = 0, kept = 0;  // elements that dense moves / own; mean kept mass
};

// The last rows of the head by itself, a step each.
class Walker {
 public:
  Walker(MeasuredHeadsPtr alone, std::stop_token stop)
      : head_(alone->known.front()),
        measured_(std::move(alone)),
        steps_(*measured_, head_->id, kSteps),
        options_{1, std::move(stop)} {
    CheckStatus(steps_.Check(head_->id), "decode steps");
  }

  // False where the head was recorded without something that the method wants, or is too short for it.
  bool Runs(const kernels::DecodeMethod& method, const kernels::ParameterValues& values) const {
    const kernels::Status status =
        CheckDecodeRuns(*measured_, method, values, kSteps, options_.num_threads, options_.stop);
    if (MeansItDoesNotRun(status)) return false;
    CheckStatus(status, method.spec().title);
    return true;
  }

  // Elements moved and mean kept mass.
  std::pair<double, double> Run(const kernels::DecodeMethod& method, const kernels::ParameterValues& values) const {
    const kernels::AttentionProblem whole = measured_->Problem();
    DecodeWalk walk(steps_, method, values, whole, RecordedOf(*measured_), options_);
    CheckStatus(walk.Start(), method.spec().title);
    double moved = 0, kept = 0, milliseconds = 0;
    std::vector<float> o(static_cast<size_t>(head_->ValueDim()));
    float lse = 0;
    for (int64_t step = 0; step < steps_.count(); ++step) {
      kernels::DecodeSelection selection;
      CheckStatus(walk.Select(step, &selection, &milliseconds), method.spec().title);
      const kernels::AttentionProblem problem = steps_.Problem(whole, step);
      kept += steps_.KeptMass(*head_, step, kernels::KeptTokens(kernels::SelectionOfHead(selection, 0), problem.seq_k));
      moved += static_cast<double>(selection.elements_moved);
      if (!walk.WantsOutput()) continue;
      const kernels::AttentionOutput output{kernels::ContiguousTensor<void>(o.data(), 1, 1, head_->ValueDim()), &lse};
      CheckStatus(kernels::DecodeCpu(problem, selection, output, options_), method.spec().title);
      CheckStatus(walk.Attended(step, selection, o.data(), &lse), method.spec().title);
    }
    return {moved, kept / static_cast<double>(steps_.count())};
  }

 private:
  const HeadTensorsPtr head_;
  const MeasuredHeadsPtr measured_;
  const DecodeSteps steps_;
  const kernels::RunOptions options_;
};

// Every method at its defaults.
std::vector<Point> PointsOfHead(const data::TraceReader& trace, const HeadTensorsPtr& head, const std::stop_token& stop,
                                std::vector<std::string>* left_out) {
  std::vector<AskedMethod> all_methods;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods())
    all_methods.push_back({kernels::UniqueName(method->spec()), kernels::ParameterValues(method->spec())});
  const Walker walker(WithLayersBelow(trace, AloneHead(head), all_methods), stop);
  const kernels::DecodeMethod& dense = kernels::DecodeBaseline();
  const double all = walker.Run(dense, kernels::ParameterValues(dense.spec())).first;
  std::vector<Point> points;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    const kernels::MethodSpec& spec = method->spec();
    if (spec.baseline) continue;
    if (!walker.Runs(*method, kernels::ParameterValues(spec))) {
      left_out->push_back(spec.title);
      continue;
    }
    const auto [moved, kept] = walker.Run(*method, kernels::ParameterValues(spec));
    points.push_back({spec.title, all / moved, kept});
  }
  return points;
}

std::vector<FigurePanel> MakeCompression(const FigureInput& input, std::string* caption) {
  const FirstOfClass first = ChooseFirstOfClass(input);
  std::vector<std::vector<std::vector<Point>>> all;
  std::vector<std::vector<std::vector<std::string>>> left_out;  // methods, as `all`
  for (const FigureTrace& trace : first.input.traces) {
    all.emplace_back(trace.heads.size());
    left_out.emplace_back(trace.heads.size());
  }
  ForEachHead(first.input, [&](size_t trace, size_t head, const HeadTensorsPtr& tensors) {
    all[trace][head] = PointsOfHead(*first.input.traces[trace].trace, tensors, input.stop, &left_out[trace][head]);
  });
  std::vector<FigurePanel> panels;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    for (size_t head = 0; head < all[trace].size(); ++head) {
      FigurePanel panel;
      panel.title = first.titles[trace][head];
      panel.x = {"compression: elements of dense / own", true, 0, 0};
      panel.y = {"kept mass", false, 0, 1};
      panel.kind = FigureKind::kPoints;
      for (const Point& point : all[trace][head])
        panel.series.push_back({point.method, {point.compression}, {point.kept}});
      panels.push_back(std::move(panel));
    }
  }
  *caption = "Mean kept mass of the last 8 rows as decode steps, on " + FirstOfClassText() +
             " by itself, every method at its defaults. SparQ: 6.4 times fewer elements at 4096 tokens and 7.53 at "
             "16384 with r = 32 and k = 128.";
  std::map<std::string, std::string> heads_without;  // by methods
  for (size_t trace = 0; trace < left_out.size(); ++trace) {
    for (size_t head = 0; head < left_out[trace].size(); ++head) {
      std::string names;
      for (const std::string& name : left_out[trace][head]) names += (names.empty() ? "" : ", ") + name;
      if (names.empty()) continue;
      std::string& heads = heads_without[names];
      heads += (heads.empty() ? "" : "; ") + first.titles[trace][head];
    }
  }
  for (const auto& [names, heads] : heads_without) {
    caption->append(" Without a point, where they do not run (a comparison says why): ");
    caption->append(names).append(" in ").append(heads).append(".");
  }
  return panels;
}

}  // namespace

const FigureMaker& CompressionFigure() {
  static const SimpleFigure figure(
      {"compression", "Kept mass of decode methods by what they read", "SparQ Attention, appendix G",
       "mass that each decode method keeps against how much less it reads, one panel per class of heads", 1,
       /*by_class=*/true},
      MakeCompression);
  return figure;
}

}  // namespace headscope::analysis
