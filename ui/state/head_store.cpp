// SPDX-License-Identifier: Apache-2.0
#include "head_store.h"

#include <algorithm>
#include <iterator>

namespace headscope::ui {
namespace {

struct ResultMetric {
  const char *name, *title, *unit, *help;
  double HeadResult::*value;
  double maximum;  // of its range from 0; 0: by data
};
constexpr ResultMetric kResultMetrics[] = {
    {"result.kept", "All heads: kept share", "share", "share of the pairs that the method keeps",
     &HeadResult::kept_fraction, 1},
    {"result.cra_p5", "All heads: CRA, 5th percentile", "share", "95 % of the queries keep at least this",
     &HeadResult::cra_p5, 1},
    {"result.speedup", "All heads: speed-up", "times", "dense time / the method's time, measured side by side",
     &HeadResult::speedup, 0},
    {"result.error", "All heads: relative error", "", "|O - O_dense| / |O_dense|", &HeadResult::relative_error, 0},
    {"result.method", "All heads: tuned method", "number",
     "number of the tuned method that is best on the head, counted from 1 in list order", &HeadResult::method, 0},
    {"result.checked_cra_p5", "All heads: CRA, 5th percentile, held-out traces", "share",
     "95 % of the queries of the traces that nothing was chosen by keep at least this", &HeadResult::checked_cra_p5, 1},
};

const ResultMetric* FindResultMetric(const std::string& name) {
  const auto* const found = std::find_if(std::begin(kResultMetrics), std::end(kResultMetrics),
                                         [&](const ResultMetric& metric) { return name == metric.name; });
  return found == std::end(kResultMetrics) ? nullptr : found;
}

}  // namespace

const std::vector<analysis::MetricInfo>& ResultMetrics() {
  static const std::vector<analysis::MetricInfo> metrics = [] {
    std::vector<analysis::MetricInfo> made;
    for (const ResultMetric& metric : kResultMetrics) {
      analysis::MetricInfo info;
      info.name = metric.name;
      info.title = metric.title;
      info.unit = metric.unit;
      info.help = metric.help;
      info.maximum = metric.maximum;
      made.push_back(info);
    }
    return made;
  }();
  return metrics;
}

void HeadStore::SetResult(analysis::HeadId head, const HeadResult& result) {
  if (!Holds(head)) return;
  results_[head] = result;
  Q_EMIT ResultsChanged();
}

const HeadResult* HeadStore::ResultOf(analysis::HeadId head) const {
  const auto found = results_.find(head);
  return found == results_.end() ? nullptr : &found->second;
}

void HeadStore::SetTags(analysis::HeadId head, const QStringList& tags) {
  if (!Holds(head) || TagsOf(head) == tags) return;
  tags_[head] = tags;
  Q_EMIT TagsChanged(head);
}

QStringList HeadStore::TagsOf(analysis::HeadId head) const {
  const auto found = tags_.find(head);
  return found == tags_.end() ? QStringList() : found->second;
}

void HeadStore::ClearResults() {
  if (results_.empty()) return;
  results_.clear();
  Q_EMIT ResultsChanged();
}

bool HeadStore::IsResultMetric() const {
  return FindResultMetric(metric_) != nullptr;
}

double HeadStore::MetricOf(analysis::HeadId head) const {
  if (const ResultMetric* metric = FindResultMetric(metric_)) {
    const auto result = results_.find(head);
    return result == results_.end() ? std::numeric_limits<double>::quiet_NaN() : result->second.*(metric->value);
  }
  const analysis::HeadStatistics* const statistics = Find(head);
  if (statistics == nullptr) return std::numeric_limits<double>::quiet_NaN();
  const double value = analysis::MetricValue(*statistics, metric_);
  if (!shows_differences()) return value;
  const analysis::HeadStatistics* const other = FindOther(head);
  return other == nullptr ? std::numeric_limits<double>::quiet_NaN() : analysis::MetricValue(*other, metric_) - value;
}

bool HeadStore::ShowsEstimate(analysis::HeadId head) const {
  const analysis::HeadStatistics *const here = Find(head), *const there = FindOther(head);
  if (IsResultMetric() || here == nullptr) return false;
  if (!IsExact(*here)) return true;
  return shows_differences() && there != nullptr && there->num_rows != other_trace_->num_rows;
}

const analysis::HeadStatistics* HeadStore::FindOther(analysis::HeadId head) const {
  const auto found = other_statistics_.find(head);
  return found == other_statistics_.end() ? nullptr : &found->second;
}

void HeadStore::SetOther(std::optional<TraceSummary> trace) {
  other_trace_ = std::move(trace);
  other_statistics_.clear();
  if (!other_trace_) differences_ = false;
  Q_EMIT MetricChanged();
}

void HeadStore::AddOther(analysis::HeadStatistics statistics) {
  const analysis::HeadId id = statistics.id;
  other_statistics_[id] = std::move(statistics);
  if (Holds(id)) Q_EMIT StatisticsChanged(id);
}

void HeadStore::ShowDifferences(bool on) {
  on = on && HasOther();
  if (on == differences_) return;
  differences_ = on;
  Q_EMIT MetricChanged();
}

void HeadStore::SetTrace(TraceSummaryPtr trace) {
  trace_ = std::move(trace);
  statistics_.clear();
  results_.clear();
  tags_.clear();
  selected_.reset();
  Q_EMIT TraceChanged();
}

void HeadStore::Add(analysis::HeadStatistics statistics) {
  const analysis::HeadId id = statistics.id;
  statistics_[id] = std::move(statistics);
  Q_EMIT StatisticsChanged(id);
}

bool HeadStore::Holds(analysis::HeadId head) const {
  return std::binary_search(trace_->heads.begin(), trace_->heads.end(), head);
}

void HeadStore::Select(analysis::HeadId head) {
  if (!Holds(head)) return;
  Q_EMIT SelectionAsked(head);
  if (selected_ == head) return;
  selected_ = head;
  Q_EMIT SelectionChanged(head);
}

void HeadStore::SetMetric(const std::string& name) {
  const std::vector<analysis::MetricInfo>& metrics = analysis::Metrics();
  const bool known =
      name == kClassMetric || FindResultMetric(name) != nullptr ||
      std::any_of(metrics.begin(), metrics.end(), [&](const auto& metric) { return metric.name == name; });
  if (!known || name == metric_) return;
  metric_ = name;
  Q_EMIT MetricChanged();
}

void HeadStore::SetFilter(const HeadFilter& filter) {
  filter_ = filter;
  Q_EMIT FilterChanged();
}

const analysis::HeadStatistics* HeadStore::Find(analysis::HeadId head) const {
  const auto found = statistics_.find(head);
  return found == statistics_.end() ? nullptr : &found->second;
}

std::vector<analysis::HeadStatistics> HeadStore::AllStatistics() const {
  std::vector<analysis::HeadStatistics> all;
  for (const auto& [id, statistics] : statistics_) all.push_back(statistics);
  return all;
}

std::optional<analysis::HeadId> HeadStore::Neighbour(analysis::HeadId head, int step) const {
  const auto at = std::lower_bound(trace_->heads.begin(), trace_->heads.end(), head);
  if (at == trace_->heads.end() || *at != head) return std::nullopt;
  const auto last = static_cast<std::ptrdiff_t>(trace_->heads.size()) - 1;
  const std::ptrdiff_t index = std::clamp<std::ptrdiff_t>(at - trace_->heads.begin() + step, 0, last);
  return trace_->heads[static_cast<size_t>(index)];
}

const analysis::MetricInfo* HeadStore::metric_info() const {
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    if (metric.name == metric_) return &metric;
  }
  for (const analysis::MetricInfo& metric : ResultMetrics()) {
    if (metric.name == metric_) return &metric;
  }
  return nullptr;
}

analysis::MetricScale HeadStore::Scale() const {
  const analysis::MetricInfo* info = metric_info();
  if (info == nullptr) return {};
  std::vector<double> values;
  for (const analysis::HeadId& head : trace_->heads) values.push_back(MetricOf(head));
  if (!shows_differences()) {
    analysis::MetricInfo shown = *info;
    shown.alarm = AlarmOf(shown);
    return {shown, values};
  }
  analysis::MetricInfo difference;  // about zero, as wide as the largest
  difference.diverging = true;
  return {difference, values};
}

void HeadStore::SetAlarm(const std::string& metric, double alarm) {
  const auto [place, is_new] = alarms_.try_emplace(metric, alarm);
  if (!is_new && place->second == alarm) return;
  place->second = alarm;
  if (metric == metric_) Q_EMIT MetricChanged();
}

double HeadStore::AlarmOf(const analysis::MetricInfo& metric) const {
  const auto found = alarms_.find(metric.name);
  return found == alarms_.end() ? metric.alarm : found->second;
}

std::string HeadStore::MetricTitle() const {
  const analysis::MetricInfo* info = metric_info();
  if (info == nullptr) return {};
  const std::string title = info->title + (info->unit.empty() ? "" : " [" + info->unit + "]");
  return shows_differences() ? title + ": the other trace minus this one" : title;
}

QString FormatMetric(double value) {
  return QString::fromStdString(analysis::MetricText(value));
}

}  // namespace headscope::ui
