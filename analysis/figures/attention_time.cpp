// SPDX-License-Identifier: Apache-2.0
// How much of a generation step attention takes by length: the step's time is a line, and what it is at length 0 is the
// time of everything else (SparQ Attention, figure 3 and appendix D).
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "analysis/measured_heads.h"
#include "base/check_status.h"
#include "base/stop.h"
#include "base/stopwatch.h"
#include "compare/decode_steps.h"
#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/machine.h"
#include "figures/simple_figure.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/decode_method.h"

namespace headscope::analysis {
namespace {

constexpr int64_t kNumLengths = 8;
constexpr int kRepeats = 12;
constexpr int64_t kMostWeights = int64_t{1} << 26;  // elements in memory; of more, the time of as many is multiplied

// One step of a layer's recorded heads after any of its recorded rows.
class LayerStep {
 public:
  explicit LayerStep(MeasuredHeadsPtr heads)
      : heads_(std::move(heads)),
        steps_(*heads_, {heads_->layer, heads_->first_qo_head}, static_cast<int32_t>(heads_->num_rows)),
        o_(static_cast<size_t>(heads_->num_qo_heads * heads_->ValueDim())) {
    CheckStatus(steps_.Check({heads_->layer, heads_->first_qo_head}), heads_->Name());
  }

  const MeasuredHeads& heads() const { return *heads_; }
  double Seconds(int64_t row) {
    const kernels::AttentionProblem problem = steps_.Problem(heads_->Problem(), row);
    const kernels::DecodeMethod& dense = kernels::DecodeBaseline();
    kernels::DecodeSelection everything;
    CheckStatus(dense.Select(problem, kernels::ParameterValues(dense.spec()), {1, {}}, &everything), heads_->Name());
    const kernels::AttentionOutput output{
        kernels::ContiguousTensor<void>(o_.data(), heads_->num_qo_heads, 1, heads_->ValueDim()), nullptr};
    kernels::Status status;
    const double seconds = SecondsOf([&] { status = kernels::DecodeCpu(problem, everything, output, {1, {}}); });
    CheckStatus(status, heads_->Name());
    return seconds;
  }

 private:
  const MeasuredHeadsPtr heads_;
  const DecodeSteps steps_;
  std::vector<float> o_;
};

// A line through points by least squares.
struct Line {
  double slope = 0, at_zero = 0;
};

Line FitLine(const FigureSeries& points) {
  const auto count = static_cast<double>(points.x.size());
  double mean_x = 0, mean_y = 0, products = 0, squares = 0;
  for (size_t i = 0; i < points.x.size(); ++i) {
    mean_x += points.x[i] / count;
    mean_y += points.y[i] / count;
  }
  for (size_t i = 0; i < points.x.size(); ++i) {
    products += (points.x[i] - mean_x) * (points.y[i] - mean_y);
    squares += (points.x[i] - mean_x) * (points.x[i] - mean_x);
  }
  const double slope = products / squares;
  return {slope, mean_y - slope * mean_x};
}

// Milliseconds of a step by length: the mean of those between the quartiles. Layer after layer the weights are read, 12
// d_m^2 of them, and the recorded heads attend, so that neither finds in a cache what a real step would not.
FigureSeries MeasureSteps(const FigureTrace& trace, const FigureInput& input) {
  std::vector<LayerStep> layers;
  const std::vector<int32_t> numbers = LayersOf(trace);
  const auto num_layers = static_cast<int64_t>(numbers.size());
  for (const int32_t layer : numbers) {
    const HeadId first = *std::find_if(trace.heads.begin(), trace.heads.end(),
                                       [layer](const HeadId& head) { return head.layer == layer; });
    layers.emplace_back(LoadLayer(*trace.trace, first, MostMeasuredBytes() / num_layers));
  }
  int64_t of_layers = 0;
  for (const LayerStep& layer : layers) {
    const int64_t width = int64_t{layer.heads().num_qo_heads} * layer.heads().ValueDim();
    of_layers += 12 * width * width;
  }
  const int64_t in_memory = std::min(of_layers, kMostWeights);
  const std::vector<float> weights(static_cast<size_t>(in_memory / num_layers), 1.0f);
  const double times = static_cast<double>(of_layers) / static_cast<double>(weights.size() * layers.size());
  std::vector<std::vector<float>> of_each(layers.size(), weights);
  const HeadFrame& frame = layers.front().heads();
  const std::vector<int64_t> rows = SpacedRows(frame.num_rows, kNumLengths);
  std::vector<std::vector<double>> seconds(rows.size());
  // Length after length in every repeat: what else the machine does for a while slows them all.
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (size_t length = 0; length < rows.size(); ++length) {
      double step = 0;
      for (size_t layer = 0; layer < layers.size(); ++layer)
        step += times * SecondsOf([&] { ReadAll(of_each[layer]); }) + layers[layer].Seconds(rows[length]);
      seconds[length].push_back(step);
      StopIfAsked(input.stop);
    }
  }
  FigureSeries series{trace.name, {}, {}};
  for (size_t length = 0; length < rows.size(); ++length) {
    std::vector<double>& repeats = seconds[length];
    std::sort(repeats.begin(), repeats.end());
    series.x.push_back(frame.row_positions[static_cast<size_t>(rows[length])] + 1);
    series.y.push_back(1e3 * MeanOfNumbers({repeats.begin() + kRepeats / 4, repeats.end() - kRepeats / 4}));
  }
  return series;
}

std::vector<FigurePanel> MakeAttentionTime(const FigureInput& input, std::string* caption) {
  FigurePanel times, share;
  times.title = "a step of the recorded layers, and the line through them";
  times.kind = FigureKind::kLines;
  times.x = {"tokens", false, 0, 0};
  times.y.title = "milliseconds";
  share.title = "attention's part, by the line";
  share.x = {"tokens", true, 0, 0};
  share.y = {"share of the step", false, 0, 1};
  std::vector<Line> lines;
  for (const FigureTrace& trace : input.traces) {
    FigureSeries measured = MeasureSteps(trace, input);
    const Line line = FitLine(measured);
    FigureSeries fitted{trace.name + ", line", {0, measured.x.back()}, {}}, part{trace.name, {}, {}};
    for (const double tokens : fitted.x) fitted.y.push_back(line.at_zero + line.slope * tokens);
    for (double tokens = 1024; tokens <= 131072; tokens *= 2) {
      part.x.push_back(tokens);
      part.y.push_back(line.slope * tokens / (line.at_zero + line.slope * tokens));
    }
    lines.push_back(line);
    measured.dots = true;
    measured.part = fitted.part = trace.name;
    times.series.push_back(std::move(measured));
    times.series.push_back(std::move(fitted));
    share.series.push_back(std::move(part));
  }
  *caption =
      "Dense attention of the recorded heads, one thread, fp32, and reading 12 d_m^2 weights per layer: " +
      OfTraces(input,
               [&lines](size_t trace) {
                 const Line& line = lines[trace];
                 return Digits(1e3 * line.slope, 3) + " us per token and " + Digits(line.at_zero, 2) +
                        " ms at length 0, attention half of it at " + Digits(line.at_zero / line.slope, 0) + " tokens";
               }) +
      ". SparQ, appendix D, Llama 2 7B: 16.2 us and 244 ms on a CPU (half at 15049 tokens), 0.4686 us and 9.5 ms "
      "on an A100.";
  return {std::move(times), std::move(share)};
}

}  // namespace

const FigureMaker& AttentionTimeFigure() {
  static const SimpleFigure figure(
      {"attention-time", "Time of attention in a step", "SparQ Attention, figure 3 and appendix D",
       "time of a generation step by length on this machine, and attention's part of it"},
      MakeAttentionTime);
  return figure;
}

}  // namespace headscope::analysis
