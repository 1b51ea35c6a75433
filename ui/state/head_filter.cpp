// SPDX-License-Identifier: Apache-2.0
#include "head_filter.h"

#include <QRegularExpression>
#include <QStringList>
#include <algorithm>
#include <cmath>

#include "similar_heads.h"

namespace headscope::ui {
namespace {

constexpr char kLayer[] = "layer", kHead[] = "head", kClass[] = "class";

bool IsNumberOfAHead(const std::string& name) {
  const auto& metrics = analysis::Metrics();
  return name == kLayer || name == kHead ||
         std::any_of(metrics.begin(), metrics.end(), [&](const auto& metric) { return metric.name == name; });
}

// What to type in place of a name that is none: the metrics that have it in their names or titles, which are what the
// column headers say.
QString MetricsLike(const QString& name) {
  constexpr qsizetype kMost = 3;
  QStringList like;
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    const QString own = QString::fromStdString(metric.name);
    if (like.size() < kMost && (own.contains(name, Qt::CaseInsensitive) ||
                                QString::fromStdString(metric.title).contains(name, Qt::CaseInsensitive)))
      like.append(own);
  }
  if (like.isEmpty()) return QStringLiteral("the manual (Shift+F1) lists them under “Statistics of a head”");
  return QStringLiteral("type ") + like.join(QStringLiteral(" or "));
}

// "0.75" -> 0.005, "7e-1" -> 0.05.
double HalfOfLastDigit(const QString& number) {
  const QStringList parts = number.toLower().split(u'e');
  const qsizetype point = parts[0].indexOf(u'.');
  const double decimals = point < 0 ? 0 : static_cast<double>(parts[0].size() - point - 1);
  const double exponent = parts.size() > 1 ? parts[1].toDouble() : 0;
  return 0.5 * std::pow(10.0, exponent - decimals);
}

}  // namespace

HeadFilter HeadFilter::Parse(const QString& text) {
  HeadFilter filter;
  for (const QString& word : text.split(u' ', Qt::SkipEmptyParts))
    filter.terms_.push_back(ParseWord(word, &filter.error_));
  if (!filter.error_.isEmpty()) filter.terms_.clear();
  return filter;
}

HeadFilter::Term HeadFilter::ParseWord(const QString& word, QString* error) {
  static const QRegularExpression head_pattern(QStringLiteral("^(\\d{1,6}):(\\d{1,6})?$"));
  static const QRegularExpression heads_pattern(QStringLiteral("^\\d{1,6}:(\\d{1,6})?(,\\d{1,6}:(\\d{1,6})?)*$"));
  static const QRegularExpression comparison_pattern(QStringLiteral("^([A-Za-z0-9_.]+)(<=|>=|==|<|>|=)([^<>=]+)$"));
  Term term;
  if (heads_pattern.match(word).hasMatch()) {
    term.kind = Kind::kHeads;
    for (const QString& part : word.split(u',')) {
      const auto head = head_pattern.match(part);
      term.heads.push_back({head.captured(1).toInt(), head.captured(2).isEmpty()
                                                          ? std::optional<int>()
                                                          : std::optional(head.captured(2).toInt())});
    }
    return term;
  }
  if (word.startsWith(u'#')) {
    term.kind = Kind::kTag;
    term.text = word.mid(1).toStdString();
    return term;
  }
  const auto comparison = comparison_pattern.match(word);
  if (!comparison.hasMatch()) {
    if (word.contains(QRegularExpression(QStringLiteral("[<>=:]")))) {
      *error = QStringLiteral("\"%1\" is not understood: type, for example, 4:, 4:3, sink or kurtosis>2.").arg(word);
    }
    term.text = word.toLower().toStdString();
    return term;
  }
  if (comparison.captured(1) == QStringLiteral("like") && comparison.captured(2).startsWith(u'=')) {
    const auto other = head_pattern.match(comparison.captured(3));
    if (!other.hasMatch() || other.captured(2).isEmpty())
      *error = QStringLiteral("\"%1\" is not a head: type, for example, like=4:3.").arg(comparison.captured(3));
    term.kind = Kind::kLike;
    term.heads = {{other.captured(1).toInt(), other.captured(2).toInt()}};
    return term;
  }
  const QString name = comparison.captured(1), number = comparison.captured(3);
  term.sign = comparison.captured(2);
  if (name == QLatin1String(kClass) && term.sign.startsWith(u'=')) {
    // "class=sink" is no sink+local: a name that a class has in full means this class, part of one any class with it.
    term.text = number.toLower().toStdString();
    term.whole = std::any_of(analysis::kHeadClasses.begin(), analysis::kHeadClasses.end(),
                             [&term](const analysis::HeadClassInfo& info) { return info.name == term.text; });
    return term;
  }
  term.kind = Kind::kComparison;
  term.text = name.toStdString();
  bool is_number = false;
  term.value = number.toDouble(&is_number);
  term.half_digit = HalfOfLastDigit(number);
  if (!is_number || !std::isfinite(term.value)) *error = QStringLiteral("\"%1\" is not a number.").arg(number);
  if (!IsNumberOfAHead(term.text)) *error = QStringLiteral("\"%1\" is not a metric: %2.").arg(name, MetricsLike(name));
  return term;
}

QString HeadFilter::WordOf(const std::vector<analysis::HeadId>& heads) {
  QStringList words;
  for (const analysis::HeadId head : heads) words.append(QStringLiteral("%1:%2").arg(head.layer).arg(head.head));
  return words.join(u',');
}

bool HeadFilter::Accepts(analysis::HeadId head, const analysis::HeadStatistics* statistics, const QStringList& tags,
                         const Find& find) const {
  return std::all_of(terms_.begin(), terms_.end(),
                     [&](const Term& term) { return Accepts(term, head, statistics, tags, find); });
}

bool HeadFilter::Accepts(const Term& term, analysis::HeadId head, const analysis::HeadStatistics* statistics,
                         const QStringList& tags, const Find& find) {
  switch (term.kind) {
    case Kind::kHeads:
      return std::any_of(term.heads.begin(), term.heads.end(), [&](const Term::Place& place) {
        return head.layer == place.layer && (!place.head || head.head == *place.head);
      });
    case Kind::kClass: {
      if (statistics == nullptr) return false;
      const std::string name = analysis::HeadClassName(statistics->head_class);
      return term.whole ? name == term.text : name.find(term.text) != std::string::npos;
    }
    case Kind::kTag:
      return std::any_of(tags.begin(), tags.end(), [&](const QString& tag) {
        return tag.contains(QString::fromStdString(term.text), Qt::CaseInsensitive);
      });
    case Kind::kLike: {
      const analysis::HeadId other{term.heads.front().layer, term.heads.front().head.value_or(0)};
      const analysis::HeadStatistics* const numbers = find ? find(other) : nullptr;
      return head == other ||
             (statistics != nullptr && numbers != nullptr && PatternLikeness(*statistics, *numbers) >= kAlike);
    }
    case Kind::kComparison:
      break;
  }
  double value = 0;
  if (term.text == kLayer) {
    value = head.layer;
  } else if (term.text == kHead) {
    value = head.head;
  } else if (statistics != nullptr) {
    value = analysis::MetricValue(*statistics, term.text);
  } else {
    return false;
  }
  if (term.sign == u"<") return value < term.value;
  if (term.sign == u"<=") return value <= term.value;
  if (term.sign == u">") return value > term.value;
  if (term.sign == u">=") return value >= term.value;
  constexpr double kRounding = 1 + 1e-9;  // 0.8 - 0.75 is a little more than 0.05
  return std::abs(value - term.value) <= term.half_digit * kRounding;
}

}  // namespace headscope::ui
