// SPDX-License-Identifier: Apache-2.0
// Light and dark colours of the whole window; "system" follows the desktop, also while it changes.
#pragma once

#include <QDBusVariant>
#include <QObject>
#include <QPalette>
#include <QString>

namespace headscope::ui {

QPalette LightPalette();
QPalette DarkPalette();

class Theme : public QObject {
  Q_OBJECT

 public:
  explicit Theme(QObject* parent = nullptr);
  // "system", "light" or "dark".
  void Set(const QString& name);
  const QString& name() const { return name_; }
  // Asks the desktop (freedesktop settings portal) what it prefers and listens for changes; the answer comes later.
  // Without a session bus the palette that Qt has from the platform decides.
  void FollowDesktop();

 private Q_SLOTS:
  void DesktopSettingChanged(const QString& group, const QString& key, const QDBusVariant& value);

 private:
  void Apply();
  QString name_ = QStringLiteral("system");
  bool desktop_is_dark_ = false;
};

}  // namespace headscope::ui
