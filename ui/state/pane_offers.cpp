// SPDX-License-Identifier: Apache-2.0
#include "pane_offers.h"

#include <utility>

namespace headscope::ui {

void PaneOffers::OfferPicture(QObject* pane, Picture picture) {
  // A name is a command's and a file's: the newest offer has it.
  std::erase_if(pictures_, [&](const Picture& offered) { return offered.name == picture.name; });
  connect(pane, &QObject::destroyed, this, [this, name = picture.name] {
    std::erase_if(pictures_, [&](const Picture& offered) { return offered.name == name; });
    Q_EMIT PicturesChanged();
  });
  pictures_.push_back(std::move(picture));
  Q_EMIT PicturesChanged();
}

void PaneOffers::OfferView(QObject* pane, const QString& name, View view) {
  views_[name] = std::move(view);
  connect(pane, &QObject::destroyed, this, [this, name] { views_.erase(name); });
}

QJsonObject PaneOffers::ViewStates() const {
  QJsonObject states;
  for (const auto& [name, view] : views_) states[name] = view.state();
  return states;
}

void PaneOffers::RestoreViews(const QJsonObject& states) const {
  for (const auto& [name, view] : views_) {
    // What is as it was is left alone: to sort a table anew would drop its selection.
    if (states.contains(name) && states[name] != view.state()) view.restore(states[name].toObject());
  }
}

}  // namespace headscope::ui
