// SPDX-License-Identifier: Apache-2.0
#include "allowed.h"

#include <QVariant>

namespace headscope::ui {
namespace {

constexpr char kToolTip[] = "toolTipWhenAllowed", kStatusTip[] = "statusTipWhenAllowed", kWhyNot[] = "whyNotAllowed";

// Its own tip, and the reason behind it. The tip is kept in a property of the control.
QString Tip(QObject* control, const char* kept_as, const QString& present, bool allowed, const QString& why_not) {
  if (!control->property(kept_as).isValid()) control->setProperty(kept_as, present);
  const QString help = control->property(kept_as).toString();
  if (allowed) return help;
  return help.isEmpty() ? QObject::tr("Unavailable: %1.").arg(why_not)
                        : QObject::tr("%1. Unavailable: %2.").arg(help, why_not);
}

}  // namespace

void Allow(QAction* action, bool allowed, const QString& why_not) {
  action->setProperty(kWhyNot, allowed ? QString() : why_not);
  action->setEnabled(allowed);
  action->setToolTip(Tip(action, kToolTip, action->toolTip(), allowed, why_not));
  action->setStatusTip(Tip(action, kStatusTip, action->statusTip(), allowed, why_not));
}

QString WhyNotAllowed(const QAction& action) {
  return action.isEnabled() ? QString() : action.property(kWhyNot).toString();
}

void Allow(QWidget* control, bool allowed, const QString& why_not) {
  control->setEnabled(allowed);
  control->setToolTip(Tip(control, kToolTip, control->toolTip(), allowed, why_not));
}

}  // namespace headscope::ui
