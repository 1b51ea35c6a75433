// SPDX-License-Identifier: Apache-2.0
#include "stopped_statistics.h"

#include <QObject>
#include <functional>

namespace headscope::ui {
namespace {

// Heads without exact statistics: with a quick estimate, and with nothing.
struct Inexact {
  size_t estimated = 0, unknown = 0;
};

Inexact CountInexact(const TraceSummary& trace,
                     const std::function<const analysis::HeadStatistics*(analysis::HeadId)>& find) {
  Inexact count;
  for (const analysis::HeadId& head : trace.heads) {
    const analysis::HeadStatistics* const known = find(head);
    if (known == nullptr) {
      ++count.unknown;
    } else if (known->num_rows != trace.num_rows) {
      ++count.estimated;
    }
  }
  return count;
}

}  // namespace

QString StatisticsStoppedText(const HeadStore& heads) {
  const Inexact count = CountInexact(heads.trace(), [&](analysis::HeadId head) { return heads.Find(head); });
  if (count.estimated > 0 && count.unknown > 0)
    return QObject::tr("Statistics stopped. The remaining heads keep their quick estimates, or have none yet.");
  if (count.estimated > 0) return QObject::tr("Statistics stopped. The remaining heads keep their quick estimates.");
  if (count.unknown > 0) return QObject::tr("Statistics stopped. The remaining heads have none yet.");
  return QObject::tr("Statistics stopped.");
}

QString OtherStatisticsStoppedText(const HeadStore& heads, const QString& name) {
  const Inexact count = CountInexact(*heads.other(), [&](analysis::HeadId head) { return heads.FindOther(head); });
  if (count.estimated > 0 && count.unknown > 0) {
    return QObject::tr(
               "Statistics of %1 stopped. The remaining heads are compared by quick estimates, or not at all yet.")
        .arg(name);
  }
  if (count.estimated > 0)
    return QObject::tr("Statistics of %1 stopped. The remaining heads are compared by quick estimates.").arg(name);
  if (count.unknown > 0)
    return QObject::tr("Statistics of %1 stopped. The remaining heads are not compared yet.").arg(name);
  return QObject::tr("Statistics of %1 stopped.").arg(name);
}

}  // namespace headscope::ui
