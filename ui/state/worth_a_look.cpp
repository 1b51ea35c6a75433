// SPDX-License-Identifier: Apache-2.0
#include "worth_a_look.h"

#include <QObject>
#include <algorithm>
#include <cmath>

namespace headscope::ui {
std::vector<HeadWorthALook> HeadsWorthALook(const HeadStore& heads) {
  const std::vector<analysis::HeadStatistics> all = heads.AllStatistics();
  std::vector<HeadWorthALook> found;
  const auto add = [&](const analysis::HeadStatistics* best, const QString& why) {
    const auto is_it = [&](const HeadWorthALook& one) { return best != nullptr && one.head == best->id; };
    if (best != nullptr && std::none_of(found.begin(), found.end(), is_it)) found.push_back({best->id, why});
  };
  const auto best_of = [&](auto counts, double sign) {
    const analysis::HeadStatistics* best = nullptr;
    double most = 0;
    for (const analysis::HeadStatistics& head : all) {
      const double value = sign * analysis::MetricValue(head, analysis::QuotedSparsity());
      if (!counts(head) || std::isnan(value) || (best != nullptr && value <= most)) continue;
      best = &head;
      most = value;
    }
    return best;
  };
  const auto any = [](const analysis::HeadStatistics&) { return true; };
  const auto text = [](const char* what, const analysis::HeadStatistics* head) {
    if (head == nullptr) return QString();
    return QObject::tr(what)
        .arg(100 * (1 - analysis::MetricValue(*head, analysis::QuotedSparsity())), 0, 'f', 1)
        .arg(100 * analysis::kQuotedCra);
  };
  const auto* far = best_of(
      [](const analysis::HeadStatistics& head) { return head.head_class == analysis::HeadClass::kRetrieval; }, 1);
  add(far, text("reads far: %1 % of its keys hold %2 % of its attention, wherever they lie", far));
  const auto* sparse = best_of(any, 1);
  add(sparse, text("the sparsest: %1 % of its keys hold %2 % of its attention", sparse));
  const auto* dense = best_of(any, -1);
  add(dense, text("the densest: it needs %1 % of its keys for %2 % of its attention", dense));
  return found;
}

std::optional<analysis::HeadId> HeadWithMost(const HeadStore& heads, const std::string& metric) {
  std::optional<analysis::HeadId> best;
  double most = 0;
  for (const analysis::HeadStatistics& head : heads.AllStatistics()) {
    const double value = analysis::MetricValue(head, metric);
    if (std::isnan(value) || (best && value <= most)) continue;
    best = head.id;
    most = value;
  }
  return best;
}

}  // namespace headscope::ui
