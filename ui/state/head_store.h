// SPDX-License-Identifier: Apache-2.0
// The heads of the open trace and what is known of them: the one model behind matrix, table and exports.
#pragma once

#include <QObject>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/types/metric_scale.h"
#include "head_filter.h"
#include "ui/workbench.h"

namespace headscope::ui {

// What a sweep over all heads found of one. NaN: not known.
struct HeadResult {
  double kept_fraction = std::numeric_limits<double>::quiet_NaN();
  double cra_p5 = std::numeric_limits<double>::quiet_NaN();
  double speedup = std::numeric_limits<double>::quiet_NaN();
  double relative_error = std::numeric_limits<double>::quiet_NaN();
  double method = std::numeric_limits<double>::quiet_NaN();  // of a tuning, its number among the methods, from 1
  double checked_cra_p5 = std::numeric_limits<double>::quiet_NaN();  // of a tuning, on the traces it is checked on
  std::string setting = {};  // method and budgets that a tuning found; empty: none, or it was measured
};

// The numbers of HeadResult as metrics, beside analysis::Metrics().
const std::vector<analysis::MetricInfo>& ResultMetrics();

class HeadStore : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;

  void SetTrace(TraceSummaryPtr trace);  // not null
  void SetTrace(TraceSummary trace) { SetTrace(std::make_shared<const TraceSummary>(std::move(trace))); }
  void Add(analysis::HeadStatistics statistics);
  void Select(analysis::HeadId head);  // a head that the trace does not hold changes nothing
  // A metric's name, or kClassMetric. An unknown name changes nothing.
  void SetMetric(const std::string& name);

  // Of the sweep that was started last.
  void SetResult(analysis::HeadId head, const HeadResult& result);
  void ClearResults();
  // Null: none.
  const HeadResult* ResultOf(analysis::HeadId head) const;

  // Another trace beside this one, whose heads of the same layer and number are compared with these. Its statistics
  // come by AddOther; nothing: no such trace any more.
  void SetOther(std::optional<TraceSummary> trace);
  void AddOther(analysis::HeadStatistics statistics);
  bool HasOther() const { return other_trace_.has_value(); }
  const std::optional<TraceSummary>& other() const { return other_trace_; }
  const analysis::HeadStatistics* FindOther(analysis::HeadId head) const;
  // The metric's colours show the other trace's value less this one's. Without another trace: no.
  void ShowDifferences(bool on);
  bool shows_differences() const { return differences_ && HasOther() && !IsResultMetric() && !IsClassMetric(); }

  // What the head table shows, and what the matrix does not dim.
  void SetFilter(const HeadFilter& filter);
  bool Passes(analysis::HeadId head) const {
    return filter_.Accepts(head, Find(head), TagsOf(head), [this](analysis::HeadId other) { return Find(other); });
  }
  // As a person would type it: the head table, which has the words, answers by SetFilter.
  void AskForFilter(const QString& text) { Q_EMIT FilterAsked(text); }

  // That a person gave it.
  void SetTags(analysis::HeadId head, const QStringList& tags);
  QStringList TagsOf(analysis::HeadId head) const;

  static constexpr char kClassMetric[] = "class";

  const TraceSummary& trace() const { return *trace_; }
  const TraceSummaryPtr& shared_trace() const { return trace_; }
  bool HasTrace() const { return !trace_->heads.empty(); }
  bool Holds(analysis::HeadId head) const;
  std::optional<analysis::HeadId> selected() const { return selected_; }
  // nullptr while nothing is known.
  const analysis::HeadStatistics* Find(analysis::HeadId head) const;
  // Taken over every recorded row; otherwise from a quick look at some of them.
  bool IsExact(const analysis::HeadStatistics& statistics) const { return statistics.num_rows == trace_->num_rows; }
  // Whether what the metric's colour shows of the head comes, in part at least, from such a quick look.
  bool ShowsEstimate(analysis::HeadId head) const;
  std::vector<analysis::HeadStatistics> AllStatistics() const;
  bool HasAllStatistics() const { return HasTrace() && statistics_.size() == trace_->heads.size(); }  // quick ones do
  // The head `step` places on, by layer and number; stays at the ends.
  std::optional<analysis::HeadId> Neighbour(analysis::HeadId head, int step) const;

  const std::string& metric() const { return metric_; }
  // Of the present metric, or the difference of it; NaN while it is not known, and for the class.
  double MetricOf(analysis::HeadId head) const;
  bool IsResultMetric() const;
  bool IsClassMetric() const { return metric_ == kClassMetric; }
  // Above which values of a metric are shown as alarming; infinite: none is. The metric's own at first.
  void SetAlarm(const std::string& metric, double alarm);
  double AlarmOf(const analysis::MetricInfo& metric) const;
  const analysis::MetricInfo* metric_info() const;  // nullptr for the class
  std::string MetricTitle() const;                  // with its unit, and whether it is a difference
  // What the metric's colours span: its own range, else that of the heads known so far. 0 to 1 for the class.
  analysis::MetricScale Scale() const;

 Q_SIGNALS:
  void TraceChanged();
  void StatisticsChanged(headscope::analysis::HeadId head);
  void MetricChanged();
  void FilterAsked(const QString& text);
  void FilterChanged();
  void ResultsChanged();
  void SelectionAsked(headscope::analysis::HeadId head);  // of a head that is held, also the one that is selected
  void SelectionChanged(headscope::analysis::HeadId head);
  void TagsChanged(headscope::analysis::HeadId head);

 private:
  TraceSummaryPtr trace_ = std::make_shared<const TraceSummary>();
  std::map<analysis::HeadId, analysis::HeadStatistics> statistics_, other_statistics_;
  std::optional<TraceSummary> other_trace_;
  bool differences_ = false;
  std::map<analysis::HeadId, HeadResult> results_;
  std::map<analysis::HeadId, QStringList> tags_;
  std::optional<analysis::HeadId> selected_;
  std::string metric_ = kClassMetric;
  std::map<std::string, double> alarms_;
  HeadFilter filter_;
};

// analysis::MetricText, for widgets.
QString FormatMetric(double value);

}  // namespace headscope::ui
