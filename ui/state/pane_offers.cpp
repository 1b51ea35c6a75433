// SPDX-License-Identifier: Apache-2.0
#include "pane_offers.h"

#include <utility>

namespace headscope::ui {

void PaneOffers::OfferPicture(QObject* pane, const QString& name, WritesPicture write) {
  pictures_[name] = std::move(write);
  connect(pane, &QObject::destroyed, this, [this, name] { pictures_.erase(name); });
}

void PaneOffers::OfferView(QObject* pane, const QString& name, View view) {
  views_[name] = std::move(view);
  connect(pane, &QObject::destroyed, this, [this, name] { views_.erase(name); });
}

QString PaneOffers::WritePicture(const QString& name, const QString& path) const {
  const auto found = pictures_.find(name);
  if (found == pictures_.end()) return tr("There is no picture of %1 to write.").arg(name);
  return found->second(path);
}

QJsonObject PaneOffers::ViewStates() const {
  QJsonObject states;
  for (const auto& [name, view] : views_) states[name] = view.state();
  return states;
}

void PaneOffers::RestoreViews(const QJsonObject& states) const {
  for (const auto& [name, view] : views_) {
    if (states.contains(name)) view.restore(states[name].toObject());
  }
}

}  // namespace headscope::ui
