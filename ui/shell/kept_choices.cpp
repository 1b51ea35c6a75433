// SPDX-License-Identifier: Apache-2.0
#include "kept_choices.h"

#include <QCheckBox>
#include <QComboBox>
#include <QJsonObject>

#include "pane_offers.h"

namespace headscope::ui {
namespace {

QJsonValue ChosenIn(const QWidget* box) {
  if (const auto* combo = qobject_cast<const QComboBox*>(box)) return combo->currentText();
  return qobject_cast<const QCheckBox*>(box)->isChecked();
}

void Choose(QWidget* box, const QJsonValue& chosen) {
  if (auto* combo = qobject_cast<QComboBox*>(box)) {
    // By its words: another version may list them in another order, or not at all.
    if (const int index = combo->findText(chosen.toString()); chosen.isString() && index >= 0)
      combo->setCurrentIndex(index);
  } else if (chosen.isBool()) {
    qobject_cast<QCheckBox*>(box)->setChecked(chosen.toBool());
  }
}

}  // namespace

void KeepChoices(PaneOffers* offers, QWidget* pane, const QString& name, const QList<QWidget*>& boxes) {
  for (QWidget* box : boxes) {
    if (auto* combo = qobject_cast<QComboBox*>(box)) {
      QObject::connect(combo, &QComboBox::currentIndexChanged, offers, &PaneOffers::ViewChanged);
    } else {
      QObject::connect(qobject_cast<QCheckBox*>(box), &QCheckBox::toggled, offers, &PaneOffers::ViewChanged);
    }
  }
  offers->OfferView(pane, name,
                    {[boxes] {
                       QJsonObject state;
                       for (const QWidget* box : boxes) state[box->objectName()] = ChosenIn(box);
                       return state;
                     },
                     [boxes](const QJsonObject& state) {
                       for (QWidget* box : boxes) Choose(box, state[box->objectName()]);
                     }});
}

}  // namespace headscope::ui
