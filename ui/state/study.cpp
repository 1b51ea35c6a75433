// SPDX-License-Identifier: Apache-2.0
#include "study.h"

namespace headscope::ui {

Study::Study(Workbench* workbench, HeadStore* heads, QObject* parent)
    : QObject(parent), workbench_(workbench), heads_(heads) {}

void Study::SetMeasuring(bool measuring) {
  if (measuring == measuring_) return;
  measuring_ = measuring;
  MeasuringChanged();
  Q_EMIT Changed();
}

void Study::Begin() {
  ++number_;
  working_ = true;
  share_ = -1;
  Q_EMIT Began();
  Q_EMIT Changed();
}

void Study::End() {
  ++number_;
  if (std::exchange(working_, false)) Q_EMIT Ended();
  Q_EMIT Changed();
}

bool Study::Stop() {
  if (!working_) return false;
  CancelWork();
  working_ = false;
  ++number_;
  Q_EMIT Ended();
  return true;
}

void Study::Abandon() {
  blockSignals(true);
  Stop();
}

Reply<ProgressReport> Study::Tells() {
  return Newest([this](const ProgressReport& report) {
    share_ = report.fraction;
    Q_EMIT Progressed(report);
    Q_EMIT Changed();
  });
}

}  // namespace headscope::ui
