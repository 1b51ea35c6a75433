// SPDX-License-Identifier: Apache-2.0
// What a decode step moves and computes: memory of the KV cache by length, and arithmetic intensity beside what this
// machine does (SparQ Attention, section 2 and appendix C).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/machine.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

constexpr std::array<double, 8> kLengths = {1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

// Tokens that a layer's newest row sees after that many.
double SeenTokens(const data::LayerFacts& facts, double tokens) {
  return facts.window > 0  ? std::min<double>(tokens, facts.window)
         : facts.chunk > 0 ? std::min<double>(tokens, facts.chunk)
                           : tokens;
}

// Elements of K and V of one layer after that many tokens.
double CacheElements(const data::LayerFacts& facts, double tokens) {
  if (facts.kv_layer >= 0) return 0;  // reads another layer's
  return SeenTokens(facts, tokens) * facts.num_kv_heads * (facts.head_dim + (facts.v_is_k ? 0 : facts.v_head_dim));
}

std::vector<FigurePanel> MakeMemory(const FigureInput& input, std::string* caption) {
  FigurePanel total, marginal;
  total.title = "KV cache of the recorded layers, 2 bytes per element";
  total.x = marginal.x = {"tokens", true, 0, 0};
  total.y = {"MiB", true, 0, 0};
  marginal.title = "bytes per token";
  marginal.y.title = "KV cache per token, bytes";
  for (const FigureTrace& trace : input.traces) {
    FigureSeries keys_values{trace.name, {}, {}}, second_copy{trace.name + ", K twice (SparQ)", {}, {}};
    FigureSeries each = keys_values;
    if (input.traces.size() > 1) {
      keys_values.trace = second_copy.trace = trace.name;
      keys_values.part = "K and V once";
      second_copy.part = "K twice (SparQ)";
    }
    for (const double tokens : kLengths) {
      double elements = 0, of_keys = 0;
      for (size_t layer = 0; layer < trace.trace->layout().layers.size(); ++layer) {
        const data::LayerFacts& facts = trace.trace->layout().facts[layer];
        const double of_layer = CacheElements(facts, tokens);
        elements += of_layer;
        of_keys += of_layer * facts.head_dim / (facts.head_dim + (facts.v_is_k ? 0 : facts.v_head_dim));
      }
      for (FigureSeries* series : {&keys_values, &second_copy, &each}) series->x.push_back(tokens);
      keys_values.y.push_back(2 * elements / (1024 * 1024));
      second_copy.y.push_back(2 * (elements + of_keys) / (1024 * 1024));
      each.y.push_back(2 * elements / tokens);
      marginal.y.maximum =
          std::max(marginal.y.maximum, 1.1 * each.y.back());  // from 0: it may be one number throughout
    }
    total.series.push_back(std::move(keys_values));
    total.series.push_back(std::move(second_copy));
    marginal.series.push_back(std::move(each));
  }
  *caption =
      "By the layers' KV heads, head sizes, windows and shared caches. SparQ, appendix F: the second copy of K takes "
      "half as much again.";
  return {std::move(total), std::move(marginal)};
}

// A decode step of a batch, in units of two multiply-adds and two elements of one sequence.
struct StepCost {
  double multiply_adds = 0, weights = 0, cache = 0;  // weights, cache: elements moved
};

// SparQ's model of a layer, d_m^2 (6 + rho g) multiply-adds and d_m^2 (6 / B + rho) elements with rho = S / (g d_m),
// summed over the recorded layers by their own shapes; where all are alike, the sum's ratios are one layer's.
StepCost CostOf(const data::TraceLayout& layout, double tokens, double batch) {
  StepCost cost;
  for (const data::LayerFacts& facts : layout.facts) {
    const double head_dim = (facts.head_dim + facts.v_head_dim) / 2.0;
    const double model_dim = facts.num_qo_heads * head_dim, seen = SeenTokens(facts, tokens);
    cost.multiply_adds += 6 * model_dim * model_dim + seen * model_dim;
    cost.weights += 6 * model_dim * model_dim / batch;
    cost.cache += seen * facts.num_kv_heads * head_dim;
  }
  return cost;
}

// Pairs that a head's recorded rows attend, `begin` of the rows on.
double AttendedPairs(const data::TraceReader& trace, const data::LayerFacts& facts, size_t begin) {
  const std::vector<int32_t>& positions = trace.row_positions();
  double pairs = 0;
  for (size_t row = begin; row < positions.size(); ++row) pairs += SeenTokens(facts, positions[row] + 1.0);
  return pairs;
}

// A run as a point: multiply-adds by elements that it moves at least once, and multiply-adds a second. Of a decode
// method a step's; of a prefill method Q, K, V and the output each once.
struct RunPoint {
  FigureSeries series;  // the method's of the trace, without points
  size_t place = 0;     // of the trace
  int32_t num_threads = 0;
  double intensity = 0, speed = 0;
};

RunPoint PointOf(const FigureInput& input, size_t place, const MethodResult& run, const data::LayerFacts& facts) {
  const data::TraceReader& trace = *input.traces[place].trace;
  const double width = facts.head_dim + facts.v_head_dim, heads = run.measured.num_qo_heads,
               kv_heads = run.measured.num_kv_heads;
  const auto rows = static_cast<double>(run.num_rows), tokens = static_cast<double>(trace.num_tokens());
  RunPoint point{PartOfTrace(input, place, run.method), place, run.num_threads};
  double multiply_adds = 0, elements = 0;
  if (run.phase == kernels::Phase::kDecode) {
    const std::vector<int32_t>& positions = trace.row_positions();
    const size_t begin = positions.size() - std::min(positions.size(), static_cast<size_t>(run.num_rows));
    const double pairs = AttendedPairs(trace, facts, begin) / rows;
    multiply_adds = run.kept_fraction * pairs * width * heads;
    elements = pairs * width * kv_heads / (run.is_baseline ? 1.0 : run.bytes_allow);
  } else {
    multiply_adds = run.kept_fraction * AttendedPairs(trace, facts, 0) * width * heads;
    elements = rows * width * heads + tokens * width * kv_heads;
  }
  point.intensity = multiply_adds / elements;
  point.speed = multiply_adds / (run.attend.median_ms / 1e3);
  return point;
}

// The runs on the CPU of heads that the figure shows, trace by trace. `left_out` grows by those that are of other
// heads, of a GPU or without a time.
std::vector<RunPoint> PointsOf(const FigureInput& input, size_t* left_out) {
  std::vector<RunPoint> points;
  for (size_t place = 0; place < input.traces.size(); ++place) {
    const data::TraceReader& trace = *input.traces[place].trace;
    const auto& heads = input.traces[place].heads;
    const std::vector<int32_t>& layers = trace.layout().layers;
    for (const MethodResult& run : input.traces[place].runs) {
      const auto layer = std::find(layers.begin(), layers.end(), run.head.layer);
      const bool is_point = !run.device.is_gpu() && run.num_threads > 0 && run.attend.median_ms > 0 &&
                            run.num_rows > 0 && std::find(heads.begin(), heads.end(), run.head) != heads.end() &&
                            layer != layers.end();
      if (!is_point) {
        ++*left_out;
        continue;
      }
      points.push_back(PointOf(input, place, run, trace.layout().facts[static_cast<size_t>(layer - layers.begin())]));
    }
  }
  return points;
}

// What was measured on the traces' heads, below what so many threads of this machine can do.
FigurePanel RooflineOf(const std::vector<RunPoint>& points) {
  FigurePanel panel;
  panel.title = "measured runs and this machine's roof (fp32)";
  panel.x = {"multiply-adds per element moved", true, 0, 0};
  panel.y = {"G multiply-adds a second", true, 0, 0};
  std::set<int32_t> threads;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const RunPoint& point : points) {
    threads.insert(point.num_threads);
    least = std::min(least, point.intensity);
    most = std::max(most, point.intensity);
  }
  for (const int32_t count : threads) {
    const Machine machine = MeasureMachine(count);
    const double ridge = machine.multiply_adds / machine.elements;
    FigureSeries roof{"roof of " + std::to_string(count) + (count == 1 ? " thread" : " threads"), {}, {}};
    for (const double x : {std::min(least, ridge) / 2, ridge, 2 * std::max(most, ridge)}) {
      roof.x.push_back(x);
      roof.y.push_back((x < ridge ? x * machine.elements : machine.multiply_adds) / 1e9);
    }
    panel.series.push_back(std::move(roof));
  }
  // Two traces may have one name.
  std::map<std::pair<size_t, std::string>, FigureSeries> methods;
  for (const RunPoint& point : points) {
    FigureSeries& series = methods.try_emplace({point.place, point.series.name}, point.series).first->second;
    series.dots = true;
    series.x.push_back(point.intensity);
    series.y.push_back(point.speed / 1e9);
  }
  for (auto& [place_and_name, series] : methods) panel.series.push_back(std::move(series));
  return panel;
}

std::vector<FigurePanel> MakeIntensity(const FigureInput& input, std::string* caption) {
  const Machine machine = MeasureMachine();
  const double ratio = machine.multiply_adds / machine.elements;
  FigurePanel intensity, share;
  intensity.title = "arithmetic intensity of a decode step";
  intensity.x = share.x = {"tokens", true, 0, 0};
  intensity.y = {"multiply-adds per element moved", true, 0, 0};
  share.title = "attention's part of what is moved";
  share.y = {"share", false, 0, 1};
  for (size_t trace = 0; trace < input.traces.size(); ++trace) {
    for (const double batch : {1.0, 8.0, 64.0}) {
      FigureSeries series = PartOfTrace(input, trace, "batch " + Digits(batch, 0));
      FigureSeries of_attention = series;
      for (const double tokens : kLengths) {
        const StepCost cost = CostOf(input.traces[trace].trace->layout(), tokens, batch);
        series.x.push_back(tokens);
        series.y.push_back(cost.multiply_adds / (cost.weights + cost.cache));
        of_attention.x.push_back(tokens);
        of_attention.y.push_back(cost.cache / (cost.weights + cost.cache));
      }
      intensity.series.push_back(std::move(series));
      share.series.push_back(std::move(of_attention));
    }
  }
  intensity.series.push_back(
      {"this machine's balance (one thread, fp32)", {kLengths.front(), kLengths.back()}, {ratio, ratio}});
  intensity.series.back().reference = true;
  *caption = "Below the machine's balance a step waits for memory. Measured here, one thread: " +
             Digits(machine.multiply_adds / 1e9, 1) + " G multiply-adds and " + Digits(machine.elements / 1e9, 2) +
             " G fp32 elements a second, " + Digits(ratio, 1) +
             " by one. SparQ, appendix C: at most 7 for Llama 2 7B at 4096 tokens; an H100 does 295 (FP8).";
  std::vector<FigurePanel> panels = {std::move(intensity), std::move(share)};
  const bool has_runs = std::ranges::any_of(input.traces, [](const FigureTrace& trace) { return !trace.runs.empty(); });
  if (!has_runs && input.num_other_runs == 0) return panels;
  size_t left_out = input.num_other_runs;
  const std::vector<RunPoint> points = PointsOf(input, &left_out);
  if (!points.empty()) panels.push_back(RooflineOf(points));
  *caption += " " + std::to_string(points.size()) + " measured runs";
  if (left_out > 0)
    *caption += ", without " + std::to_string(left_out) + " of a GPU, of other traces or heads or without a time";
  *caption += "; one above the roof's slope reads from the cache.";
  return panels;
}

}  // namespace

const FigureMaker& MemoryFigure() {
  static const SimpleFigure figure({"memory", "Memory of the KV cache", "SparQ Attention, appendix F",
                                    "bytes of the KV cache by length, and with a second copy of K"},
                                   MakeMemory);
  return figure;
}

const FigureMaker& IntensityFigure() {
  static const SimpleFigure figure(
      {"intensity", "Arithmetic intensity of decoding", "SparQ Attention, section 2 and appendix C",
       "multiply-adds per element moved in a decode step, beside the roofline of this machine, with measured runs "
       "below it",
       1,
       /*by_class=*/false, /*of_runs=*/true},
      MakeIntensity);
  return figure;
}

}  // namespace headscope::analysis
