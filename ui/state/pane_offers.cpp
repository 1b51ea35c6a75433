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

QJsonObject PaneOffers::ViewState(const QString& name) const {
  const auto found = views_.find(name);
  return found == views_.end() ? QJsonObject() : found->second.state();
}

void PaneOffers::RestoreView(const QString& name, const QJsonObject& state) const {
  const auto found = views_.find(name);
  if (found != views_.end()) found->second.restore(state);
}

}  // namespace headscope::ui
