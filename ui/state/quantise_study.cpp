// SPDX-License-Identifier: Apache-2.0
#include "quantise_study.h"

namespace headscope::ui {

QuantiseStudy::QuantiseStudy(Workbench* workbench, HeadStore* heads, QObject* parent)
    : Study(workbench, heads, parent), formats_(workbench->quantise_formats()), scales_(workbench->quantise_scales()) {
  const auto forget = [this] {
    Cancel();
    outputs_.clear();
    ClearError();
    Q_EMIT Changed();
  };
  connect(heads, &HeadStore::TraceChanged, this, forget);
  connect(heads, &HeadStore::SelectionChanged, this, forget);
}

QuantiseStudy::~QuantiseStudy() {
  Abandon();
}

void QuantiseStudy::SetSettings(const QuantiseSettings& settings) {
  settings_ = settings;
  Q_EMIT Changed();
}

QString QuantiseStudy::WhyNotCopy() const {
  return store()->selected() ? QString() : tr("no head is open");
}

QString QuantiseStudy::WhyNot() const {
  if (!store()->selected()) return WhyNotCopy();
  if (measuring()) return tr("a run is being measured");
  return {};
}

void QuantiseStudy::Start() {
  if (!WhyNot().isEmpty()) return;
  Cancel();
  ClearError();
  outputs_.clear();
  Begin();
  workbench()->Quantise(*store()->selected(), settings_, Newest([this](const std::vector<QuantisedOutput>& outputs) {
    outputs_ = outputs;
    End();
  }),
                        Fails(), Tells());
}

void QuantiseStudy::Cancel() {
  if (Stop()) Q_EMIT Changed();
}

void QuantiseStudy::MeasuringChanged() {
  if (measuring()) Stop();
}

}  // namespace headscope::ui
