// SPDX-License-Identifier: Apache-2.0
// What a layer takes of a prompt by its length: attention, which grows with the square, beside the products with
// weights, which grow with the length (MInference, figure 2a).
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/check_status.h"
#include "base/stop.h"
#include "base/stopwatch.h"
#include "compare/model_window.h"
#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/cpu_scores.h"

namespace headscope::analysis {
namespace {

constexpr int kPrefillRounds = 5;
constexpr int64_t kShortestPrefill = 128;
constexpr int32_t kTokensAtOnce = 96;                      // of a product with weights
constexpr int32_t kWeightRows = 512;                       // whose products stay in the cache
constexpr int64_t kMostPrefillWeights = int64_t{1} << 26;  // of one product; what more take is in proportion
constexpr double kProjections = 4, kFeedForward = 8;       // weights in units of d_m^2, as SparQ counts them

// Pairs of query and key of a prompt's dense attention.
double CausalPairs(int64_t tokens, int64_t window) {
  const auto seen = static_cast<double>(window > 0 ? std::min(tokens, window) : tokens);
  return seen * (seen + 1) / 2 + (static_cast<double>(tokens) - seen) * seen;
}

// One layer, one thread.
struct LayerPrefill {
  int32_t layer = 0;
  int64_t window = 0;
  std::vector<int64_t> lengths;   // ascending
  std::vector<double> attention;  // seconds by length, of all query heads
  double products = 0;            // seconds of a token's product with d_m^2 weights
  double Attention(int64_t tokens) const {
    return attention.back() * CausalPairs(tokens, window) / CausalPairs(lengths.back(), window);
  }
};

// Seconds of dense attention on one head, as if all rows were recorded.
double DenseSeconds(const HeadTensors& head, const std::stop_token& stop) {
  const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
  kernels::SparseIndex index;
  CheckStatus(SelectOnHead(head, dense, kernels::ParameterValues(dense.spec()), {1, stop}, &index), dense.spec().title);
  std::vector<float> o(static_cast<size_t>(head.num_rows * head.ValueDim()));
  const kernels::AttentionOutput output{kernels::ContiguousTensor<void>(o.data(), 1, head.num_rows, head.ValueDim()),
                                        nullptr};
  kernels::Status status;
  const double seconds = SecondsOf([&] {
    status = kernels::AttendCpu(head.Problem(), index.View(), output, {1, stop});
  });
  CheckStatus(status, dense.spec().title);
  int64_t pairs = 0;
  for (int64_t row = 0; row < head.num_rows; ++row) {
    const kernels::ColumnRange seen = head.AttendedColumns(row);
    pairs += seen.end - seen.begin;
  }
  return seconds * CausalPairs(head.num_tokens, head.window) / static_cast<double>(pairs);
}

// Products of some tokens' hidden states with weights of `width` columns.
class WeightProduct {
 public:
  explicit WeightProduct(int64_t width)
      : width_(width),
        rows_(std::min(static_cast<int64_t>(kFeedForward) * width, kMostPrefillWeights / width)),
        weights_(std::vector<float>(static_cast<size_t>(rows_ * width), 0.01f).data(), kernels::DType::kFloat32, width,
                 static_cast<int32_t>(rows_), static_cast<int32_t>(width)),
        states_(static_cast<size_t>(kTokensAtOnce * width), 0.5f),
        made_(static_cast<size_t>(kTokensAtOnce * kWeightRows)) {}

  // Of one token with width^2 weights.
  double Seconds() {
    const double seconds = SecondsOf([&] {
      for (int32_t begin = 0; begin < rows_; begin += kWeightRows) {
        const auto end = static_cast<int32_t>(std::min<int64_t>(begin + kWeightRows, rows_));
        kernels::ScoreBlock(states_.data(), width_, kTokensAtOnce, weights_, begin, end, 1.0f, 0.0f, made_.data(),
                            kWeightRows);
      }
    });
    return seconds / kTokensAtOnce * static_cast<double>(width_) / static_cast<double>(rows_);
  }

 private:
  const int64_t width_, rows_;
  const kernels::PackedKeys weights_;
  const std::vector<float> states_;
  std::vector<float> made_;
};

// Round after round all lengths and the product: what else the machine does for a while slows them all.
LayerPrefill MeasureLayer(const FigureTrace& trace, const FigureInput& input) {
  const std::vector<int32_t> layers = LayersOf(trace);
  LayerPrefill measured;
  measured.layer = layers[layers.size() / 2];
  const HeadTensorsPtr head = LoadHead(
      *trace.trace, *std::ranges::find_if(trace.heads, [&](const HeadId& id) { return id.layer == measured.layer; }));
  const int64_t query_heads = std::max<int64_t>(1, int64_t{head->layer_group_size} * head->layer_kv_heads);
  measured.window = head->window;
  measured.lengths = {head->num_tokens};
  for (int64_t half = head->num_tokens / 2; half >= kShortestPrefill; half /= 2) measured.lengths.push_back(half);
  std::ranges::reverse(measured.lengths);
  // Where the last rows alone were recorded short prefixes hold none.
  std::erase_if(measured.lengths, [&](int64_t length) { return PrefixOf(*head, length).num_rows == 0; });
  measured.attention.assign(measured.lengths.size(), std::numeric_limits<double>::infinity());
  measured.products = std::numeric_limits<double>::infinity();
  WeightProduct product(query_heads * head->ValueDim());
  for (int round = 0; round < kPrefillRounds; ++round) {
    for (size_t i = 0; i < measured.lengths.size(); ++i) {
      const double seconds = DenseSeconds(PrefixOf(*head, measured.lengths[i]), input.stop);
      measured.attention[i] = std::min(measured.attention[i], static_cast<double>(query_heads) * seconds);
      StopIfAsked(input.stop);
    }
    // As long as a short attention takes.
    for (int time = 0; time < 4; ++time) measured.products = std::min(measured.products, product.Seconds());
  }
  return measured;
}

std::vector<FigurePanel> MakePrefillTime(const FigureInput& input, std::string* caption) {
  FigurePanel times, share;
  times.title = "one layer of a prompt";
  times.x = {"tokens of the prefix", true, 0, 0};
  times.y = {"ms", true, 0, 0};
  share.title = "attention's part, in proportion to its pairs";
  share.x = {"tokens", true, 0, 0};
  share.y = {"share of the time", false, 0, 1};
  std::vector<LayerPrefill> layers;
  for (size_t trace = 0; trace < input.traces.size(); ++trace) {
    const LayerPrefill& layer = layers.emplace_back(MeasureLayer(input.traces[trace], input));
    FigureSeries attention = PartOfTrace(input, trace, "attention"), together = PartOfTrace(input, trace, "together");
    FigureSeries projections = PartOfTrace(input, trace, "attention's projections");
    FigureSeries feed_forward = PartOfTrace(input, trace, "feed-forward");
    for (size_t i = 0; i < layer.lengths.size(); ++i) {
      const auto tokens = static_cast<double>(layer.lengths[i]);
      for (FigureSeries* series : {&attention, &projections, &feed_forward, &together}) series->x.push_back(tokens);
      attention.y.push_back(1e3 * layer.attention[i]);
      projections.y.push_back(1e3 * tokens * kProjections * layer.products);
      feed_forward.y.push_back(1e3 * tokens * kFeedForward * layer.products);
      together.y.push_back(attention.y.back() + projections.y.back() + feed_forward.y.back());
    }
    FigureSeries part{input.traces[trace].name, {}, {}};
    for (int64_t tokens = 1024; tokens <= (int64_t{1} << 20); tokens *= 2) {
      const double of_attention = layer.Attention(tokens);
      part.x.push_back(static_cast<double>(tokens));
      part.y.push_back(of_attention /
                       (of_attention + static_cast<double>(tokens) * (kProjections + kFeedForward) * layer.products));
    }
    for (FigureSeries* series : {&attention, &projections, &feed_forward, &together})
      times.series.push_back(std::move(*series));
    share.series.push_back(std::move(part));
  }
  *caption =
      "Dense attention of the heads of a layer, and products of its tokens with 12 d_m^2 weights (4 of them the "
      "projections of attention), one thread, fp32, the least of " +
      std::to_string(kPrefillRounds) + " rounds: " +
      OfTraces(input,
               [&](size_t trace) {
                 const FigureSeries& part = share.series[trace];
                 return "layer " + std::to_string(layers[trace].layer) + ", attention " +
                        Digits(100 * part.y.front(), 1) + " % at 1024 tokens and " + Digits(100 * part.y.back(), 1) +
                        " % at a million";
               }) +
      ". MInference, figure 2a and section 1: above 90 % of the time of a long prompt (LLaMA-3-8B, A100).";
  return {std::move(times), std::move(share)};
}

}  // namespace

const FigureMaker& PrefillTimeFigure() {
  static const SimpleFigure figure(
      {"prefill-time", "Time of attention in a prompt", "MInference, figure 2a",
       "time of a layer by the prompt's length on this machine, and attention's part of it"},
      MakePrefillTime);
  return figure;
}

}  // namespace headscope::analysis
