// SPDX-License-Identifier: Apache-2.0
#include "quantise_study.h"

#include <utility>

#include "while_alive.h"

namespace headscope::ui {

QuantiseStudy::QuantiseStudy(Workbench* workbench, HeadStore* heads, QObject* parent)
    : QObject(parent),
      workbench_(workbench),
      heads_(heads),
      formats_(workbench->quantise_formats()),
      scales_(workbench->quantise_scales()) {
  const auto forget = [this] {
    Cancel();
    outputs_.clear();
    error_.clear();
    Q_EMIT Changed();
  };
  connect(heads, &HeadStore::TraceChanged, this, forget);
  connect(heads, &HeadStore::SelectionChanged, this, forget);
}

QuantiseStudy::~QuantiseStudy() {
  if (working_) workbench_->CancelQuantise();
}

void QuantiseStudy::SetSettings(const QuantiseSettings& settings) {
  settings_ = settings;
  Q_EMIT Changed();
}

QString QuantiseStudy::WhyNot() const {
  if (!heads_->selected()) return tr("no head is open");
  if (measuring_) return tr("a run is being measured");
  return {};
}

void QuantiseStudy::Start() {
  if (!WhyNot().isEmpty()) return;
  Cancel();
  working_ = true;
  error_.clear();
  outputs_.clear();
  const int64_t number = ++number_;
  Q_EMIT Began();
  Q_EMIT Changed();
  workbench_->Quantise(*heads_->selected(), settings_,
                       WhileAlive(this,
                                  [this, number](std::vector<QuantisedOutput> outputs) {
                                    if (number != number_) return;
                                    outputs_ = std::move(outputs);
                                    End();
                                  }),
                       WhileAlive(this,
                                  [this, number](const std::string& sentence) {
                                    if (number != number_) return;
                                    error_ = QString::fromStdString(sentence);
                                    End();
                                  }),
                       WhileAlive(this, [this, number](const ProgressReport& report) {
                         if (number == number_) Q_EMIT Progressed(report);
                       }));
}

void QuantiseStudy::Cancel() {
  if (!working_) return;
  ++number_;
  workbench_->CancelQuantise();
  End();
}

void QuantiseStudy::End() {
  working_ = false;
  Q_EMIT Ended();
  Q_EMIT Changed();
}

void QuantiseStudy::SetMeasuring(bool measuring) {
  if (measuring == measuring_) return;
  measuring_ = measuring;
  if (measuring) Cancel();
  Q_EMIT Changed();
}

}  // namespace headscope::ui
