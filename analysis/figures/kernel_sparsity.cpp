// SPDX-License-Identifier: Apache-2.0
// What a kernel leaves out once a mask is cut into tiles, beside what the mask leaves out (MInference, appendix F and
// figure 12).
#include <algorithm>
#include <map>
#include <string>

#include "base/check_status.h"
#include "compare/model_window.h"
#include "figures/figure_list.h"
#include "figures/first_of_class.h"
#include "figures/head_rows.h"
#include "figures/kernel_tiles.h"
#include "figures/patterns.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

constexpr int kSettings = 7, kSixteenth = 4;
constexpr int64_t kShortestPrefix = 128;

struct Shares {
  double kept = 0, computed = 0;  // of the pairs that dense attention keeps, and of those that its kernel computes
};

Shares SharesOf(const HeadTensors& head, const kernels::SparseIndexView& index) {
  return {KeptFraction(head, index), ComputedShare(head, index)};
}

struct HeadShares {
  std::map<int64_t, std::map<std::string, Shares>> by_length;  // then by method title
  std::map<std::string, std::vector<Shares>> by_setting;       // by method title
};

HeadShares SharesOfHead(const HeadTensors& head, const std::stop_token& stop) {
  HeadShares shares;
  const auto of = [&](const HeadTensors& part, const kernels::PrefillMethod& method,
                      const kernels::ParameterValues& values) {
    kernels::SparseIndex index;
    CheckStatus(SelectOnHead(part, method, values, {1, stop}, &index), method.spec().title);
    return SharesOf(part, index.View());
  };
  const std::vector<const kernels::PrefillMethod*> patterns = CountedPatterns();
  for (int64_t length = head.num_tokens; length >= kShortestPrefix; length /= 2) {
    const HeadTensors prefix = PrefixOf(head, length);
    if (prefix.num_rows == 0) break;
    for (const kernels::PrefillMethod* method : patterns) {
      const kernels::ParameterValues values = HalvedBudgets(method->spec(), head.num_tokens, kSixteenth);
      shares.by_length[length][method->spec().title] = of(prefix, *method, values);
    }
  }
  for (const kernels::PrefillMethod* method : patterns) {
    for (int setting = 1; setting <= kSettings; ++setting) {
      shares.by_setting[method->spec().title].push_back(
          of(head, *method, HalvedBudgets(method->spec(), head.num_tokens, setting)));
    }
  }
  return shares;
}

std::vector<FigurePanel> MakeKernelSparsity(const FigureInput& input, std::string* caption) {
  const FirstOfClass first = ChooseFirstOfClass(input);
  std::vector<std::vector<HeadShares>> all;
  for (const FigureTrace& trace : first.input.traces) all.emplace_back(trace.heads.size());
  ForEachHead(first.input, [&](size_t trace, size_t head, const HeadTensorsPtr& tensors) {
    all[trace][head] = SharesOfHead(*tensors, input.stop);
  });
  std::vector<FigurePanel> panels;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    FigurePanel by_length;
    by_length.title = (input.traces.size() > 1 ? input.traces[trace].name + ", " : "") + "mean of these heads";
    by_length.x = {"tokens of the prefix", true, 0, 0};
    by_length.y = {"tiles that are left out", false, 0, 1};
    for (const kernels::PrefillMethod* method : CountedPatterns()) {
      const std::string& title = method->spec().title;
      FigureSeries series{title, {}, {}};
      for (const auto& [length, unused] : all[trace].front().by_length) {
        std::vector<double> of_heads;
        for (const HeadShares& head : all[trace]) of_heads.push_back(1 - head.by_length.at(length).at(title).computed);
        series.x.push_back(static_cast<double>(length));
        series.y.push_back(MeanOfNumbers(of_heads));
      }
      by_length.series.push_back(std::move(series));
    }
    panels.push_back(std::move(by_length));
    for (size_t head = 0; head < all[trace].size(); ++head) {
      FigurePanel by_setting;
      by_setting.title = first.titles[trace][head];
      by_setting.kind = FigureKind::kPoints;
      by_setting.diagonal = true;
      by_setting.x = {"pairs that the mask leaves out", false, 0, 1};
      by_setting.y = {"tiles that are left out", false, 0, 1};
      for (const kernels::PrefillMethod* method :
           CountedPatterns()) {  // in the order, and so the colours, of the first
        FigureSeries series{method->spec().title, {}, {}};
        for (const Shares& shares : all[trace][head].by_setting.at(series.name)) {
          series.x.push_back(1 - shares.kept);
          series.y.push_back(1 - shares.computed);
        }
        by_setting.series.push_back(std::move(series));
      }
      panels.push_back(std::move(by_setting));
    }
  }
  *caption =
      "A kernel takes 64 rows at a time and gathers the keys that any of them keeps in groups of 64; shares are of "
      "what it computes for dense attention. By length: budgets a sixteenth of what covers the whole trace, on its "
      "prefixes. By head, " +
      FirstOfClassText() +
      ": budgets halved from the whole sequence. MInference, figure 12: above 90 % beyond 200K tokens, 95 % beyond "
      "500K.";
  return panels;
}

}  // namespace

const FigureMaker& KernelSparsityFigure() {
  static const SimpleFigure figure(
      {"kernel-sparsity", "Sparsity of masks and of kernels", "MInference, figure 12",
       "what tiles of 64 rows and keys leave out, by length and beside the mask itself", 1, /*by_class=*/true},
      MakeKernelSparsity);
  return figure;
}

}  // namespace headscope::analysis
