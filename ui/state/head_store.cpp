// SPDX-License-Identifier: Apache-2.0
#include "head_store.h"

#include <algorithm>

namespace headscope::ui {

void HeadStore::SetTrace(TraceSummary trace) {
  trace_ = std::move(trace);
  statistics_.clear();
  selected_.reset();
  Q_EMIT TraceChanged();
}

void HeadStore::Add(analysis::HeadStatistics statistics) {
  const analysis::HeadId id = statistics.id;
  statistics_[id] = std::move(statistics);
  Q_EMIT StatisticsChanged(id);
}

bool HeadStore::Holds(analysis::HeadId head) const {
  return std::binary_search(trace_.heads.begin(), trace_.heads.end(), head);
}

void HeadStore::Select(analysis::HeadId head) {
  if (selected_ == head || !Holds(head)) return;
  selected_ = head;
  Q_EMIT SelectionChanged(head);
}

void HeadStore::SetMetric(const std::string& name) {
  const std::vector<analysis::MetricInfo>& metrics = analysis::Metrics();
  const bool known = name == kClassMetric || std::any_of(metrics.begin(), metrics.end(),
                                                         [&](const auto& metric) { return metric.name == name; });
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
  const auto at = std::lower_bound(trace_.heads.begin(), trace_.heads.end(), head);
  if (at == trace_.heads.end() || *at != head) return std::nullopt;
  const auto last = static_cast<std::ptrdiff_t>(trace_.heads.size()) - 1;
  const std::ptrdiff_t index = std::clamp<std::ptrdiff_t>(at - trace_.heads.begin() + step, 0, last);
  return trace_.heads[static_cast<size_t>(index)];
}

const analysis::MetricInfo* HeadStore::metric_info() const {
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    if (metric.name == metric_) return &metric;
  }
  return nullptr;
}

analysis::MetricScale HeadStore::Scale() const {
  const analysis::MetricInfo* info = metric_info();
  if (info == nullptr) return {};
  std::vector<double> values;
  for (const auto& [id, statistics] : statistics_) values.push_back(analysis::MetricValue(statistics, metric_));
  return {*info, values};
}

QString FormatMetric(double value) {
  return QString::fromStdString(analysis::MetricText(value));
}

}  // namespace headscope::ui
