// SPDX-License-Identifier: Apache-2.0
#include "progress_strip.h"

#include <QHBoxLayout>
#include <QMouseEvent>
#include <QStyle>
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/byte_text.h"
#include "cut_label.h"
#include "shown_text.h"

namespace headscope::ui {

QString DescribeProgress(const ProgressReport& report) {
  QString text = Shown(report.stage);
  if (!text.isEmpty()) text[0] = text[0].toUpper();  // a terminal's stages are clauses
  QStringList parts;
  if (report.rate > 0 && report.unit == ProgressUnit::kBytes) {
    parts.append(QStringLiteral("%1/s").arg(QString::fromStdString(ByteText(std::llround(report.rate)))));
  } else if (report.rate > 0) {
    parts.append(QStringLiteral("%1 %2/s")
                     .arg(report.rate, 0, 'f', report.rate < 10 ? 1 : 0)
                     .arg(QString::fromStdString(std::string(NameOf(report.unit)))));
  }
  if (report.remaining_s >= 0) {
    const auto seconds = static_cast<qint64>(std::ceil(report.remaining_s));
    parts.append(seconds < 100 ? QObject::tr("%1 s left").arg(seconds)
                               : QObject::tr("%1 min left").arg((seconds + 59) / 60));
  }
  if (!parts.isEmpty()) text += QStringLiteral(": ") + parts.join(QStringLiteral(", "));
  return text;
}

ProgressStrip::ProgressStrip(QWidget* parent)
    : QWidget(parent), label_(new CutLabel(this)), bar_(new QProgressBar(this)), cancel_(new QToolButton(this)) {
  setObjectName(QStringLiteral("progressStrip"));
  label_->setObjectName(QStringLiteral("progressText"));
  bar_->setObjectName(QStringLiteral("progressBar"));
  bar_->setFixedWidth(140);
  bar_->setMaximumHeight(14);
  bar_->setTextVisible(false);
  cancel_->setObjectName(QStringLiteral("progressCancel"));
  cancel_->setAutoRaise(true);
  cancel_->setText(tr("Cancel"));
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(8);
  layout->addWidget(label_);
  layout->addWidget(bar_);
  layout->addWidget(cancel_);
  connect(cancel_, &QToolButton::clicked, this, &ProgressStrip::CancelShown);
  hide();
}

std::map<QString, ProgressStrip::Work>::const_iterator ProgressStrip::Shown() const {
  return std::max_element(work_.begin(), work_.end(),
                          [](const auto& a, const auto& b) { return a.second.started < b.second.started; });
}

void ProgressStrip::Begin(const QString& name, std::function<void()> cancel, std::function<void()> open) {
  work_[name] = {std::move(cancel), std::move(open), {}, ++starts_};
  Refresh();
}

void ProgressStrip::Update(const QString& name, const ProgressReport& report) {
  const auto work = work_.find(name);
  if (work == work_.end()) return;
  work->second.report = report;
  Refresh();
}

void ProgressStrip::End(const QString& name) {
  work_.erase(name);
  Refresh();
}

void ProgressStrip::CancelShown() {
  const auto shown = Shown();
  if (shown == work_.end()) return;
  const std::function<void()> cancel = shown->second.cancel;  // it may call End()
  cancel();
}

void ProgressStrip::mouseReleaseEvent(QMouseEvent* event) {
  const auto shown = Shown();
  if (event->button() != Qt::LeftButton || shown == work_.end() || !shown->second.open) return;
  const std::function<void()> open = shown->second.open;  // it may call End()
  open();
}

void ProgressStrip::Refresh() {
  if (work_.empty()) {
    hide();
    bar_->setRange(0, 1000);  // an unknown share is an animation, which would draw frames while hidden
    return;
  }
  const Work& shown = Shown()->second;
  const ProgressReport& report = shown.report;
  QStringList all;
  for (const auto& [name, work] : work_) all.append(DescribeProgress(work.report));
  setToolTip(ShownToolTip(all.join(u'\n')).replace(QStringLiteral("\\n"), QStringLiteral("<br>")));
  setCursor(shown.open ? Qt::PointingHandCursor : Qt::ArrowCursor);
  const QString others = work_.size() > 1 ? tr("   (+%1 more)").arg(work_.size() - 1) : QString();
  label_->setText(DescribeProgress(report) + others);
  if (report.fraction < 0) {
    bar_->setRange(0, 0);
  } else {
    bar_->setRange(0, 1000);
    bar_->setValue(static_cast<int>(std::lround(1000 * std::min(1.0, report.fraction))));
  }
  show();
  // Room for the text at once: Qt would pass the wish for it on by events, level by level, and on a busy machine what
  // is drawn in between is the new text in the room of the last one.
  for (QWidget* one : {static_cast<QWidget*>(this), parentWidget()}) {
    if (one != nullptr && one->layout() != nullptr) one->layout()->activate();
  }
}

}  // namespace headscope::ui
