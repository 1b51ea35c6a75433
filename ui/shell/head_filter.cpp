#include "head_filter.h"

#include <QRegularExpression>
#include <QStringList>
#include <algorithm>

namespace headscope::ui {

HeadFilter HeadFilter::Parse(const QString& text) {
  static const QRegularExpression head_pattern(QStringLiteral("^(\\d{1,6}):(\\d{1,6})?$"));
  static const QRegularExpression comparison_pattern(QStringLiteral("^([A-Za-z0-9_.]+)(<=|>=|<|>)([-+0-9.eE]+)$"));
  HeadFilter filter;
  for (const QString& word : text.split(u' ', Qt::SkipEmptyParts)) {
    Term term;
    if (const auto head = head_pattern.match(word); head.hasMatch()) {
      term.kind = head.captured(2).isEmpty() ? Kind::kLayer : Kind::kHead;
      term.layer = head.captured(1).toInt();
      term.head = head.captured(2).toInt();
    } else if (const auto comparison = comparison_pattern.match(word); comparison.hasMatch()) {
      term.text = comparison.captured(1).toStdString();
      const QString sign = comparison.captured(2);
      term.kind = sign == u"<"    ? Kind::kLess
                  : sign == u"<=" ? Kind::kLessOrEqual
                  : sign == u">"  ? Kind::kMore
                                  : Kind::kMoreOrEqual;
      bool is_number = false;
      term.value = comparison.captured(3).toDouble(&is_number);
      const auto& metrics = analysis::Metrics();
      const bool is_metric =
          std::any_of(metrics.begin(), metrics.end(), [&](const auto& metric) { return metric.name == term.text; });
      if (!is_metric)
        filter.error_ =
            QStringLiteral("\"%1\" is not a metric: hover a column's title for its name.").arg(comparison.captured(1));
      if (!is_number) filter.error_ = QStringLiteral("\"%1\" is not a number.").arg(comparison.captured(3));
    } else if (word.contains(u'<') || word.contains(u'>') || word.contains(u':')) {
      filter.error_ =
          QStringLiteral("\"%1\" is not understood: type for instance 4: or 4:3 or sink or kurtosis>2.").arg(word);
    } else {
      term.kind = Kind::kClass;
      term.text = word.toLower().toStdString();
    }
    filter.terms_.push_back(term);
  }
  if (!filter.error_.isEmpty()) filter.terms_.clear();
  return filter;
}

bool HeadFilter::Accepts(analysis::HeadId head, const analysis::HeadStatistics* statistics) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    switch (term.kind) {
      case Kind::kLayer:
        return head.layer == term.layer;
      case Kind::kHead:
        return head == analysis::HeadId{term.layer, term.head};
      case Kind::kClass:
        return statistics != nullptr &&
               std::string(analysis::HeadClassName(statistics->head_class)).find(term.text) != std::string::npos;
      case Kind::kLess:
        return statistics != nullptr && analysis::MetricValue(*statistics, term.text) < term.value;
      case Kind::kLessOrEqual:
        return statistics != nullptr && analysis::MetricValue(*statistics, term.text) <= term.value;
      case Kind::kMore:
        return statistics != nullptr && analysis::MetricValue(*statistics, term.text) > term.value;
      case Kind::kMoreOrEqual:
        return statistics != nullptr && analysis::MetricValue(*statistics, term.text) >= term.value;
    }
    return false;
  });
}

}  // namespace headscope::ui
