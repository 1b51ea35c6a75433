// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>

#include "analysis/types/head_statistic.h"
#include "analysis/types/head_statistics.h"
#include "analysis/types/metric_list.h"
#include "analysis/types/row_statistic.h"

namespace headscope::analysis {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// A metric and where its value comes from. Lists (top-k mass, agreement, sparsity) have one metric per entry that
// StatisticsOptions computes by default; a head whose statistics lack the entry gives NaN.
struct Metric {
  MetricInfo info;
  std::function<double(const HeadStatistics&)> value;
};

Metric OfList(MetricList list, Metric metric) {
  metric.info.list = list;
  return metric;
}

Metric Shown(MetricShown shown, Metric metric) {
  metric.info.shown = shown;
  return metric;
}

Metric InReport(Metric metric) {
  metric.info.in_report = true;
  return metric;
}

Metric PartOfMass(const char* part, Metric metric) {
  metric.info.mass_part = part;
  return metric;
}

Metric ClearestOf(HeadClass head_class, Metric metric) {
  metric.info.clearest_of = head_class;
  return metric;
}

Metric TopK(int32_t k) {
  const std::string number = std::to_string(k);
  return OfList(MetricList::kTopK,
                {{"top_" + number + "_mass", "Mass of top " + number, "share",
                  "mean over rows of the mass of the row's " + number + " largest probabilities", false, 0, 1},
                 [k](const HeadStatistics& statistics) {
                   for (const TopKMass& entry : statistics.top_k_mass) {
                     if (entry.k == k) return entry.mean;
                   }
                   return kUnknown;
                 }});
}

Metric Agreement(int32_t r, int32_t k) {
  std::string numbers = "r";
  numbers.append(std::to_string(r)).append("_k").append(std::to_string(k));
  return OfList(MetricList::kAgreement,
                {{"agreement_" + numbers, "Top-" + std::to_string(k) + " agreement, r = " + std::to_string(r), "share",
                  "share of the row's " + std::to_string(k) + " best keys that SparQ's " + std::to_string(r) +
                      "-component scores find, mean over rows",
                  false, 0, 1},
                 [r, k](const HeadStatistics& statistics) {
                   for (const TopKAgreement& entry : statistics.agreement) {
                     if (entry.r == r && entry.k == k) return entry.mean;
                   }
                   return kUnknown;
                 }});
}

Metric Sparsity(double target) {
  const std::string number = CraText(target);
  return OfList(MetricList::kSparsity,
                {{"sparsity_" + number, "Sparsity at CRA " + number, "share",
                  "share of causal pairs that can go while every row keeps " + number + " of its mass", false, 0, 1},
                 [target](const HeadStatistics& statistics) {
                   for (const SparsityAtCra& entry : statistics.sparsity) {
                     if (entry.target == target) return entry.sparsity;
                   }
                   return kUnknown;
                 }});
}

Metric Mass(const char* name, const char* title, const char* help, double HeadStatistics::*member) {
  return {{name, title, "share", help, false, 0, 1},
          [member](const HeadStatistics& statistics) { return statistics.*member; }};
}

Metric Logit(const char* name, const char* title, const char* help, double HeadStatistics::*member) {
  return {{.name = name, .title = title, .unit = "", .help = help, .diverging = true},
          [member](const HeadStatistics& statistics) { return statistics.*member; }};
}

std::vector<Metric> MakeMetrics() {
  std::vector<Metric> metrics;
  metrics.push_back(ClearestOf(HeadClass::kSinkLocal, InReport(Shown(MetricShown::kAlways, Sparsity(kQuotedCra)))));
  metrics.push_back({{.name = "entropy",
                      .title = "Entropy",
                      .unit = "nats",
                      .help = "entropy of a row's probabilities, mean over rows",
                      .shown = MetricShown::kAlways,
                      .json_name = "entropy_nats",
                      .in_report = true,
                      .clearest_of = HeadClass::kDiffuse},
                     [](const HeadStatistics& statistics) { return statistics.entropy; }});
  metrics.push_back(Mass("max_probability", "Largest probability", "largest probability of a row, mean over rows",
                         &HeadStatistics::max_probability));
  metrics.push_back(ClearestOf(
      HeadClass::kSink,
      PartOfMass("sink", InReport(Shown(MetricShown::kOfWholeTrace,
                                        Mass("sink_mass", "Sink mass", "mass on the first tokens, mean over rows",
                                             &HeadStatistics::sink_mass))))));
  metrics.push_back(ClearestOf(
      HeadClass::kLocal,
      PartOfMass("local", InReport(Shown(MetricShown::kAlways, Mass("local_mass", "Local mass",
                                                                    "mass on the most recent positions, mean over rows",
                                                                    &HeadStatistics::local_mass))))));
  metrics.push_back(Mass("vertical_mass", "Vertical mass", "mass of the best columns outside sink and window",
                         &HeadStatistics::vertical_mass));
  metrics.push_back(ClearestOf(HeadClass::kVerticalSlash,
                               Mass("slash_mass", "Slash mass", "mass of the best slashes outside sink and window",
                                    &HeadStatistics::slash_mass)));
  metrics.push_back(ClearestOf(
      HeadClass::kBlock,
      Mass("block_mass", "Block mass", "mass of the best key blocks of each row block outside sink and window",
           &HeadStatistics::block_mass)));
  metrics.push_back(ClearestOf(HeadClass::kRetrieval, Mass("retrieval_mass", "Retrieval mass",
                                                           "mass of a row's best few far tokens, mean over rows",
                                                           &HeadStatistics::retrieval_mass)));
  metrics.push_back(InReport(Mass("retrieval_peak", "Retrieval peak",
                                  "mass of the best few far tokens in the rows that look back most sharply",
                                  &HeadStatistics::retrieval_peak)));
  for (const RowStatistic* statistic : RowStatistics()) {
    metrics.push_back({statistic->info(), [name = statistic->info().name](const HeadStatistics& statistics) {
                         return RowMeanOf(statistics, name);
                       }});
  }
  for (const HeadStatistic* statistic : WholeHeadStatistics()) {
    metrics.push_back({statistic->info(), [name = statistic->info().name](const HeadStatistics& statistics) {
                         for (const HeadNumber& number : statistics.numbers) {
                           if (number.name == name) return number.value;
                         }
                         return kUnknown;
                       }});
  }
  metrics.push_back(Logit("mean_logit", "Mean logit", "scaled score, mean over the pairs of sampled rows",
                          &HeadStatistics::mean_logit));
  metrics.push_back(Logit("local_logit", "Local logit",
                          "scaled score on the most recent positions, mean over those pairs of sampled rows",
                          &HeadStatistics::local_logit));
  metrics.push_back(
      {{"class_confidence", "Confidence of the class", "",
        "1 where no number that decided the class is near its threshold, 0 where one lies on it", false, 0, 1},
       [](const HeadStatistics& statistics) { return statistics.class_confidence; }});
  metrics.push_back(
      Shown(MetricShown::kOfCutTrace,
            Mass("outside_mass", "Mass outside",
                 "mass on tokens that the trace does not hold because it was cut from a longer one, mean over "
                 "rows; 0 for a whole trace",
                 &HeadStatistics::outside_mass)));
  metrics.push_back(Sparsity(0.90));
  metrics.push_back(Sparsity(0.99));
  for (int32_t k = 1; k <= 1024; k *= 2) metrics.push_back(TopK(k));
  for (const int32_t r : {8, 16, 32}) {
    for (const int32_t k : {32, 128}) metrics.push_back(Agreement(r, k));
  }
  metrics.back().info.in_report = true;  // the agreement of most components on most keys
  return metrics;
}

const std::vector<Metric>& Table() {
  static const std::vector<Metric> table = MakeMetrics();
  return table;
}

// Of the entries of the head's lists that depend on targets and budgets.
std::vector<Metric> ListMetrics(const HeadStatistics& statistics) {
  std::vector<Metric> metrics;
  for (const SparsityAtCra& entry : statistics.sparsity) metrics.push_back(Sparsity(entry.target));
  for (const TopKAgreement& entry : statistics.agreement) metrics.push_back(Agreement(entry.r, entry.k));
  return metrics;
}

// Of a list whose entries ListMetrics takes as the head has them.
bool DependsOnOptions(const MetricInfo& metric) {
  return metric.list == MetricList::kSparsity || metric.list == MetricList::kAgreement;
}

}  // namespace

// As many digits as tell targets apart, and two at least.
std::string CraText(double target) {
  std::array<char, 32> digits{};
  std::string text(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), target).ptr);
  const size_t point = text.find('.');
  if (point != std::string::npos && text.size() == point + 2) text += '0';
  return text;
}

const std::string& QuotedSparsity() {
  static const std::string name = Sparsity(kQuotedCra).info.name;
  return name;
}

bool IsShownUnasked(const MetricInfo& metric, bool of_cut_trace) {
  return metric.shown == MetricShown::kAlways ||
         metric.shown == (of_cut_trace ? MetricShown::kOfCutTrace : MetricShown::kOfWholeTrace);
}

const std::vector<MetricInfo>& Metrics() {
  static const std::vector<MetricInfo> infos = [] {
    std::vector<MetricInfo> all;
    for (const Metric& metric : Table()) all.push_back(metric.info);
    return all;
  }();
  return infos;
}

std::vector<MetricInfo> MetricsOf(const HeadStatistics& statistics) {
  std::vector<Metric> entries = ListMetrics(statistics);
  if (entries.empty()) return Metrics();
  std::vector<MetricInfo> all;
  for (const MetricInfo& metric : Metrics()) {
    if (DependsOnOptions(metric)) {
      const auto held = std::find_if(entries.begin(), entries.end(),
                                     [&](const Metric& entry) { return entry.info.name == metric.name; });
      if (held == entries.end()) continue;
      entries.erase(held);
    }
    all.push_back(metric);
  }
  for (Metric& entry : entries) all.push_back(std::move(entry.info));
  return all;
}

double MetricValue(const HeadStatistics& statistics, const std::string& name) {
  for (const Metric& metric : Table()) {
    if (metric.info.name == name) return metric.value(statistics);
  }
  for (const Metric& metric : ListMetrics(statistics)) {
    if (metric.info.name == name) return metric.value(statistics);
  }
  return kUnknown;
}

double RowMeanOf(const HeadStatistics& statistics, std::string_view name) {
  for (const RowMean& entry : statistics.row_means) {
    if (entry.name == name) return entry.mean;
  }
  return kUnknown;
}

}  // namespace headscope::analysis
