// SPDX-License-Identifier: Apache-2.0
// What share of a method's time goes into selection, by length (MInference, appendix D.2 and figure 10;
// SampleAttention, figure 11a).
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "base/check_status.h"
#include "base/stop.h"
#include "base/stopwatch.h"
#include "compare/model_window.h"
#include "figures/figure_list.h"
#include "figures/first_of_class.h"
#include "figures/head_rows.h"
#include "figures/machine.h"
#include "figures/patterns.h"
#include "figures/simple_figure.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

constexpr int kTimedHalvings = 4;  // a sixteenth
constexpr int64_t kShortestTimed = 128;
constexpr int kRounds = 3;

// Seconds of one thread: the least of the rounds each (whatever else runs only adds), summed over heads.
struct TimeParts {
  double select = 0, attend = 0;
  double Share() const { return select / (select + attend); }
};

// The baseline first, then the patterns in their order.
struct TimedMethod {
  const kernels::PrefillMethod* method;
  kernels::ParameterValues values;
};

std::vector<TimedMethod> TimedMethods(int64_t num_tokens) {
  const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
  std::vector<TimedMethod> methods = {{&dense, kernels::ParameterValues(dense.spec())}};
  for (const kernels::PrefillMethod* method : SearchablePatterns())
    methods.push_back({method, HalvedBudgets(method->spec(), num_tokens, kTimedHalvings)});
  return methods;
}

// In every round each method once, so that what else the machine does for a while slows them all alike.
std::vector<TimeParts> TimesOf(const HeadTensors& head, const std::vector<TimedMethod>& methods,
                               const std::stop_token& stop) {
  std::vector<float> o(static_cast<size_t>(head.num_rows * head.ValueDim()));
  const kernels::AttentionOutput output{kernels::ContiguousTensor<void>(o.data(), 1, head.num_rows, head.ValueDim()),
                                        nullptr};
  std::vector<std::vector<double>> select(methods.size()), attend(methods.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < methods.size(); ++i) {
      const kernels::PrefillMethod& method = *methods[i].method;
      const kernels::ParameterValues& values = methods[i].values;
      kernels::SparseIndex index;
      kernels::Status status;
      select[i].push_back(SecondsOf([&] { status = SelectOnHead(head, method, values, {1, stop}, &index); }));
      CheckStatus(status, method.spec().title);
      attend[i].push_back(SecondsOf([&] {
        status = kernels::AttendCpu(head.Problem(), index.View(), output, {1, stop});
      }));
      CheckStatus(status, method.spec().title);
      StopIfAsked(stop);
    }
  }
  std::vector<TimeParts> parts;
  for (size_t i = 0; i < methods.size(); ++i)
    parts.push_back({std::ranges::min(select[i]), std::ranges::min(attend[i])});
  return parts;
}

// Of the trace's heads together, by length, ascending: [length][method].
struct ByLength {
  std::vector<int64_t> lengths;
  std::vector<std::vector<TimeParts>> parts;
};

ByLength Measure(const FigureTrace& trace, const std::vector<TimedMethod>& methods, const FigureInput& input) {
  ByLength all;
  // Head after head: those that ran beside each other would take each other's memory traffic.
  for (const HeadId& id : trace.heads) {
    const HeadTensorsPtr head = LoadHead(*trace.trace, id);
    if (all.lengths.empty()) {
      all.lengths = {head->num_tokens};
      for (int64_t half = head->num_tokens / 2; half >= kShortestTimed; half /= 2) all.lengths.push_back(half);
      std::ranges::reverse(all.lengths);
      // Where the last rows alone were recorded short prefixes hold none.
      std::erase_if(all.lengths, [&](int64_t length) { return PrefixOf(*head, length).num_rows == 0; });
      all.parts.assign(all.lengths.size(), std::vector<TimeParts>(methods.size()));
    }
    for (size_t i = 0; i < all.lengths.size(); ++i) {
      const std::vector<TimeParts> of_head = TimesOf(PrefixOf(*head, all.lengths[i]), methods, input.stop);
      for (size_t method = 0; method < methods.size(); ++method) {
        all.parts[i][method].select += of_head[method].select;
        all.parts[i][method].attend += of_head[method].attend;
      }
    }
  }
  return all;
}

std::vector<FigurePanel> MakeLatencyBreakdown(const FigureInput& input, std::string* caption) {
  const FirstOfClass first = ChooseFirstOfClass(input);
  std::vector<FigurePanel> panels;
  for (const FigureTrace& trace : first.input.traces) {
    const std::vector<TimedMethod> methods = TimedMethods(LoadHead(*trace.trace, trace.heads.front())->num_tokens);
    const ByLength measured = Measure(trace, methods, input);
    const std::string name = input.traces.size() > 1 ? trace.name + ", " : "";
    FigurePanel whole, selection, attention, share;
    whole.title = name + "selection and attention";
    selection.title = name + "selection";
    attention.title = name + "attention";
    share.title = name + "share of the time spent on selection";
    for (FigurePanel* panel : {&whole, &selection, &attention, &share}) {
      panel->x = {"tokens of the prefix", true, 0, 0};
      panel->y = {"ms per head", true, 0, 0};
    }
    share.y = {"share of the time", false, 0, 1};
    const double to_ms = 1e3 / static_cast<double>(trace.heads.size());
    for (size_t method = 0; method < methods.size(); ++method) {
      FigureSeries of_whole{methods[method].method->spec().title, {}, {}};
      for (const int64_t length : measured.lengths) of_whole.x.push_back(static_cast<double>(length));
      FigureSeries of_selection = of_whole, of_attention = of_whole, of_share = of_whole;
      for (const std::vector<TimeParts>& at_length : measured.parts) {
        const TimeParts& parts = at_length[method];
        of_whole.y.push_back(to_ms * (parts.select + parts.attend));
        of_selection.y.push_back(to_ms * parts.select);
        of_attention.y.push_back(to_ms * parts.attend);
        of_share.y.push_back(parts.Share());
      }
      whole.series.push_back(std::move(of_whole));
      selection.series.push_back(std::move(of_selection));
      attention.series.push_back(std::move(of_attention));
      share.series.push_back(std::move(of_share));
    }
    for (FigurePanel* panel : {&whole, &share, &selection, &attention}) panels.push_back(std::move(*panel));
  }
  *caption =
      "Single heads on one thread of the processor, the least of " + std::to_string(kRounds) + " rounds, mean of " +
      FirstOfClassText() +
      ". Budgets a sixteenth of what covers the whole trace (a share leaves out a sixteenth of the mass), on its "
      "prefixes. MInference, appendix D.2, A100: vertical-slash 5 to 15 % of the time, block-sparse 25 %. "
      "SampleAttention, figure 11a: the share of sampling falls with the length.";
  return panels;
}

}  // namespace

const FigureMaker& LatencyBreakdownFigure() {
  static const SimpleFigure figure(
      {"latency-breakdown", "Time of selection and of attention", "MInference, figure 10; SampleAttention, figure 11a",
       "what each pattern takes on this machine to choose and to attend, by length", 1, /*by_class=*/true},
      MakeLatencyBreakdown);
  return figure;
}

}  // namespace headscope::analysis
