// SPDX-License-Identifier: Apache-2.0
// Figures of numbers that every head's statistics hold: one pass with input.max_rows rows a head.
#include <algorithm>
#include <cmath>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

using AllStatistics = std::vector<std::vector<HeadStatistics>>;

std::vector<double> ValuesOf(const std::vector<HeadStatistics>& heads, const std::string& metric) {
  std::vector<double> values;
  values.reserve(heads.size());
  for (const HeadStatistics& head : heads) values.push_back(MetricValue(head, metric));
  return values;
}

double MeanMetric(const std::vector<HeadStatistics>& heads, const std::string& metric) {
  return MeanOfNumbers(ValuesOf(heads, metric));
}

FigurePanel LinesByLayer(const FigureInput& input, const AllStatistics& all, const std::string& metric,
                         const std::string& title) {
  FigurePanel panel;
  panel.title = title + ", mean over heads";
  panel.x.title = "layer";
  panel.y.title = title;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    panel.series.push_back(
        MeanByLayer(input.traces[trace], [&](size_t head) { return MetricValue(all[trace][head], metric); }));
  }
  return panel;
}

// A panel for each trace.
std::vector<FigurePanel> MetricHeats(const FigureInput& input, const AllStatistics& all, const std::string& metric,
                                     const std::string& title) {
  std::vector<FigurePanel> panels;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    panels.push_back(HeadsAsHeat(input.traces[trace], title, title,
                                 [&](size_t head) { return MetricValue(all[trace][head], metric); }));
    if (all.size() > 1) panels.back().title += ": " + input.traces[trace].name;
  }
  ShareValueRange(&panels);
  return panels;
}

std::string MeansOfTraces(const FigureInput& input, const AllStatistics& all, const std::string& metric,
                          int digits = 3) {
  return DigitsOfTraces(
      input, [&](size_t trace) { return MeanMetric(all[trace], metric); }, digits);
}

FigurePanel MetricHistogram(const FigureInput& input, const AllStatistics& all, const std::string& metric,
                            const std::string& title) {
  FigurePanel panel;
  panel.title = "distribution over heads";
  panel.x.title = title;
  panel.y = {"share of heads", false, 0, 0};
  for (size_t trace = 0; trace < all.size(); ++trace)
    panel.series.push_back(Histogram(input.traces[trace].name, ValuesOf(all[trace], metric), 0, 1, 20));
  return panel;
}

std::vector<FigurePanel> MakeTopKMass(const FigureInput& input, std::string* caption) {
  const AllStatistics all = StatisticsOfAll(input);
  *caption =
      "Mass of a row's 32 largest probabilities, on average over heads: " + MeansOfTraces(input, all, "top_32_mass") +
      ". SparQ, figure 4a, prints no number.";
  FigurePanel lines;
  lines.title = "top-k mass over layers";
  lines.x.title = "layer";
  lines.y = {"mass of a row's k largest", false, 0, 1};
  for (size_t trace = 0; trace < all.size(); ++trace) {
    for (const int32_t k : {1, 8, 32, 128, 1024}) {
      FigureSeries means = MeanByLayer(input.traces[trace], [&](size_t head) {
        return MetricValue(all[trace][head], "top_" + std::to_string(k) + "_mass");
      });
      FigureSeries series = PartOfTrace(input, trace, "k = " + std::to_string(k));
      series.x = std::move(means.x);
      series.y = std::move(means.y);
      lines.series.push_back(std::move(series));
    }
  }
  std::vector<FigurePanel> panels = MetricHeats(input, all, "top_32_mass", "mass of the top 32");
  panels.insert(panels.begin(), MetricHistogram(input, all, "top_32_mass", "mass of the top 32"));
  panels.push_back(std::move(lines));
  return panels;
}

// A point a head by its layer, and a second series before RoPE where that was recorded.
FigurePanel PointsByLayer(const FigureInput& input, const AllStatistics& all, const std::string& metric,
                          const std::string& title, const std::string& axis) {
  FigurePanel panel;
  panel.title = title + " by layer";
  panel.kind = FigureKind::kPoints;
  panel.x.title = "layer";
  panel.y.title = axis;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    for (const auto& [name, which] : {std::pair{input.traces[trace].name, metric},
                                      std::pair{input.traces[trace].name + ", before RoPE", metric + "_pre_rope"}}) {
      FigureSeries series{name, {}, ValuesOf(all[trace], which)};
      for (const HeadStatistics& head : all[trace]) series.x.push_back(head.id.layer);
      if (which == metric || std::any_of(series.y.begin(), series.y.end(), [](double y) { return !std::isnan(y); }))
        panel.series.push_back(std::move(series));
    }
  }
  return panel;
}

std::vector<FigurePanel> MakeKurtosis(const FigureInput& input, std::string* caption) {
  const AllStatistics all = StatisticsOfAll(input);
  FigurePanel beside;
  beside.title = "beside a Gaussian of the same covariance";
  beside.kind = FigureKind::kPoints;
  beside.diagonal = true;
  beside.x.title = "excess kurtosis of the Gaussian";
  beside.y.title = "excess kurtosis of q";
  int64_t above = 0, count = 0;
  double most_outliers = 0;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    FigureSeries pairs{input.traces[trace].name, ValuesOf(all[trace], "kurtosis_gaussian"),
                       ValuesOf(all[trace], "kurtosis_pooled")};
    above += std::count_if(pairs.y.begin(), pairs.y.end(), [](double pooled) { return pooled > 0; });
    count += std::ssize(pairs.y);
    for (const double outliers : ValuesOf(all[trace], "query_outliers"))
      most_outliers = std::max(most_outliers, outliers);
    beside.series.push_back(std::move(pairs));
  }
  *caption = "Excess kurtosis of q's components, pooled over rows: above 0 in " + std::to_string(above) + " of " +
             std::to_string(count) +
             " heads. SparQ, figure 4d: most heads of Llama 2 7B above 0. Components with |z| > 3: " + "at most " +
             Digits(most_outliers, 1) + " times a Gaussian's; figure E1: up to 20 times.";
  return {PointsByLayer(input, all, "kurtosis_pooled", "excess kurtosis of q", "excess kurtosis of q"),
          std::move(beside),
          PointsByLayer(input, all, "query_outliers", "outliers of q",
                        "components with |z| > 3, relative to a Gaussian's")};
}

std::vector<FigurePanel> MakeAgreement(const FigureInput& input, std::string* caption) {
  const AllStatistics all = StatisticsOfAll(input, true);
  const HeadStatistics& first = all.front().front();
  FigurePanel lines;
  lines.title = "top-k agreement, mean over heads";
  lines.x = {"k", true, 0, 0};
  lines.y = {"share of the k best keys that r components find", false, 0, 1};
  for (size_t trace = 0; trace < all.size(); ++trace) {
    for (const TopKAgreement& entry : first.agreement) {
      FigureSeries empty = PartOfTrace(input, trace, "r = " + std::to_string(entry.r));
      auto series = std::find_if(lines.series.begin(), lines.series.end(),
                                 [&](const FigureSeries& one) { return one.name == empty.name; });
      if (series == lines.series.end()) series = lines.series.insert(lines.series.end(), std::move(empty));
      series->x.push_back(entry.k);
      series->y.push_back(
          MeanMetric(all[trace], "agreement_r" + std::to_string(entry.r) + "_k" + std::to_string(entry.k)));
    }
  }
  *caption =
      "Share of a row's k best keys that the scores from q's r largest components find. SparQ, figure 4e: "
      "\"reasonably high\" at r = head_dim / 8.";
  return {std::move(lines), LinesByLayer(input, all, "agreement_r16_k32", "agreement, r = 16, k = 32")};
}

std::vector<FigurePanel> MakeValueCorrelation(const FigureInput& input, std::string* caption) {
  const AllStatistics all = StatisticsOfAll(input);
  *caption = "Excess correlation ratio of V along the sequence, on average over heads: " +
             MeansOfTraces(input, all, "v_correlation") + ". SparQ, table 1: 0.256 (Llama 2 7B).";
  std::vector<FigurePanel> panels = MetricHeats(input, all, "v_correlation", "excess correlation ratio of V");
  panels.insert(panels.begin(), LinesByLayer(input, all, "v_correlation", "excess correlation ratio of V"));
  return panels;
}

std::vector<FigurePanel> MakeSparsity(const FigureInput& input, std::string* caption) {
  const AllStatistics all = StatisticsOfAll(input);
  const std::string target = CraText(kQuotedCra), title = "sparsity at " + target;
  FigurePanel sorted;
  sorted.title = "heads by sparsity";
  sorted.x.title = "head, from the densest";
  sorted.y = {"sparsity at a CRA of " + target, false, 0, 1};
  for (size_t trace = 0; trace < all.size(); ++trace) {
    FigureSeries series{input.traces[trace].name, {}, ValuesOf(all[trace], QuotedSparsity())};
    std::sort(series.y.begin(), series.y.end());
    for (size_t i = 0; i < series.y.size(); ++i) series.x.push_back(static_cast<double>(i + 1));
    sorted.series.push_back(std::move(series));
  }
  *caption = "Share of the causal pairs that can go while every row keeps " + target +
             " of its mass, on average over heads: " + MeansOfTraces(input, all, QuotedSparsity()) +
             ". SampleAttention, section 3.1: above 0.896 on average; 0.274 to 0.998 by head.";
  std::vector<FigurePanel> panels = {LinesByLayer(input, all, QuotedSparsity(), title), std::move(sorted)};
  for (FigurePanel& heat : MetricHeats(input, all, QuotedSparsity(), title)) panels.push_back(std::move(heat));
  return panels;
}

std::vector<FigurePanel> MakeNearestNonzero(const FigureInput& input, std::string* caption) {
  const AllStatistics all = StatisticsOfAll(input);
  *caption =
      "Distance of a row's non-zero entries (at least 0.001) to their 10 nearest, in tokens, on average over "
      "heads: " +
      MeansOfTraces(input, all, "nearest_nonzero", 1) +
      ". MInference, figure 3b: around 5 (128K tokens; its threshold is not stated).";
  return {LinesByLayer(input, all, "nearest_nonzero", "distance to the nearest non-zeros, tokens")};
}

std::vector<FigurePanel> MakeHeadPatterns(const FigureInput& input, std::string* caption) {
  const AllStatistics all = StatisticsOfAll(input);
  std::vector<FigurePanel> panels;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    FigurePanel panel;
    panel.title = "classes by layer: " + input.traces[trace].name;
    panel.kind = FigureKind::kStack;
    panel.x.title = "layer";
    panel.y.title = "heads";
    const std::vector<int32_t> layers = LayersOf(input.traces[trace]);
    for (const int32_t layer : layers) panel.categories.push_back(std::to_string(layer));
    for (const HeadClassInfo& one : kHeadClasses) {
      FigureSeries series{one.name, {}, std::vector<double>(layers.size())};
      for (const HeadStatistics& head : all[trace]) {
        const auto layer = std::lower_bound(layers.begin(), layers.end(), head.id.layer) - layers.begin();
        if (head.head_class == one.head_class) series.y[static_cast<size_t>(layer)] += 1;
      }
      if (std::any_of(series.y.begin(), series.y.end(), [](double count) { return count > 0; }))
        panel.series.push_back(std::move(series));
    }
    panels.push_back(std::move(panel));
  }
  FigurePanel shape;
  shape.title = "where the mass lies, mean over heads";
  shape.kind = FigureKind::kStack;
  shape.x.title = "trace";
  shape.y.title = "share of mass";
  for (const FigureTrace& trace : input.traces) shape.categories.push_back(trace.name);
  for (const MetricInfo& metric : Metrics()) {
    if (metric.mass_part.empty()) continue;
    FigureSeries series{metric.mass_part, {}, {}};
    for (const auto& heads : all) series.y.push_back(MeanMetric(heads, metric.name));
    shape.series.push_back(std::move(series));
  }
  panels.push_back(std::move(shape));
  *caption =
      "Heads of each class by layer. MInference, appendix E: over 90 % of the heads vertical-slash, block-sparse "
      "ones in middle to late layers. S2-Attention, section 3, names sink, local, middle spikes and scatter (sinks of "
      "early rows count as local, too).";
  return panels;
}

std::vector<FigurePanel> MakeLogits(const FigureInput& input, std::string* caption) {
  const AllStatistics all = StatisticsOfAll(input);
  const auto largest = [&all](size_t trace) {
    const std::vector<double> of_heads = ValuesOf(all[trace], "largest_logit");
    return *std::max_element(of_heads.begin(), of_heads.end());
  };
  *caption = "Largest scaled score of a head: at most " + DigitsOfTraces(input, largest, 1) +
             ". QK-clip (Kimi K2) acts above 100.";
  std::vector<FigurePanel> panels = MetricHeats(input, all, "largest_logit", "largest logit");
  panels.push_back(LinesByLayer(input, all, "largest_logit", "largest logit"));
  panels.push_back(LinesByLayer(input, all, "lse", "log-sum-exp, nats"));
  return panels;
}

}  // namespace

const FigureMaker& TopKMassFigure() {
  static const SimpleFigure figure(
      {"top-k-mass", "Mass of the largest probabilities", "SparQ Attention, figures 4a and 4b",
       "mass of a row's k largest probabilities, by head and layer"},
      MakeTopKMass);
  return figure;
}

const FigureMaker& KurtosisFigure() {
  static const SimpleFigure figure(
      {"kurtosis", "Kurtosis of q", "SparQ Attention, figures 4d and E1",
       "excess kurtosis and outliers of q by layer, beside a Gaussian of the same covariance"},
      MakeKurtosis);
  return figure;
}

const FigureMaker& AgreementFigure() {
  static const SimpleFigure figure({"agreement", "Top-k agreement", "SparQ Attention, figures 4e and E2",
                                    "keys that the largest components of q find, over k and r"},
                                   MakeAgreement);
  return figure;
}

const FigureMaker& ValueCorrelationFigure() {
  static const SimpleFigure figure({"v-correlation", "Correlation of V along the sequence", "SparQ Attention, table 1",
                                    "excess correlation ratio of V by layer and head"},
                                   MakeValueCorrelation);
  return figure;
}

const FigureMaker& SparsityFigure() {
  static const SimpleFigure figure(
      {"sparsity", "Sparsity at a CRA of " + CraText(kQuotedCra), "SampleAttention, figure 3 and section 3.1",
       "pairs that can go while every row keeps " + CraText(kQuotedCra) + " of its mass"},
      MakeSparsity);
  return figure;
}

const FigureMaker& NearestNonzeroFigure() {
  static const SimpleFigure figure({"nearest-nonzero", "Distance to the nearest non-zeros", "MInference, figure 3b",
                                    "how far a row's non-zero entries lie from each other, by layer"},
                                   MakeNearestNonzero);
  return figure;
}

const FigureMaker& HeadPatternsFigure() {
  static const SimpleFigure figure(
      {"head-patterns", "Classes of heads", "MInference, appendix E; S2-Attention, section 3",
       "how many heads of each class a layer has, and where the mass lies", 1, /*by_class=*/true},
      MakeHeadPatterns);
  return figure;
}

const FigureMaker& LogitsFigure() {
  static const SimpleFigure figure({"logits", "Logits", "Kimi K2: Open Agentic Intelligence (QK-clip)",
                                    "largest logit and log-sum-exp by head and layer"},
                                   MakeLogits);
  return figure;
}

}  // namespace headscope::analysis
