// SPDX-License-Identifier: Apache-2.0
#include "theme.h"

#include <QApplication>
#include <QDBusConnection>
#include <QDBusMessage>
#include <QDBusPendingCallWatcher>
#include <QDBusPendingReply>
#include <QToolTip>

namespace headscope::ui {
namespace {

constexpr char kService[] = "org.freedesktop.portal.Desktop", kPath[] = "/org/freedesktop/portal/desktop",
               kInterface[] = "org.freedesktop.portal.Settings", kGroup[] = "org.freedesktop.appearance",
               kSchemeKey[] = "color-scheme";
constexpr uint kPrefersDark = 1;

struct Colors {
  QColor window, base, alternate, text, faint, button, highlight, link, tooltip;
};

QPalette MakePalette(const Colors& colors) {
  QPalette palette(colors.button, colors.window);
  palette.setColor(QPalette::Window, colors.window);
  palette.setColor(QPalette::Base, colors.base);
  palette.setColor(QPalette::AlternateBase, colors.alternate);
  for (const QPalette::ColorRole role :
       {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText})
    palette.setColor(role, colors.text);
  palette.setColor(QPalette::PlaceholderText, colors.faint);
  for (const QPalette::ColorRole role :
       {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::HighlightedText}) {
    palette.setColor(QPalette::Disabled, role, colors.faint);
  }
  palette.setColor(QPalette::Button, colors.button);
  palette.setColor(QPalette::Highlight, colors.highlight);
  palette.setColor(QPalette::HighlightedText, Qt::white);
  palette.setColor(QPalette::Link, colors.link);
  palette.setColor(QPalette::ToolTipBase, colors.tooltip);
  return palette;
}

}  // namespace

QPalette LightPalette() {
  return MakePalette({.window = {239, 240, 243},
                      .base = {253, 253, 254},
                      .alternate = {245, 246, 248},
                      .text = {28, 30, 36},
                      .faint = {100, 104, 114},
                      .button = {232, 234, 238},
                      .highlight = {46, 108, 176},
                      .link = {34, 92, 160},
                      .tooltip = {253, 253, 250}});
}

QPalette DarkPalette() {
  return MakePalette({.window = {37, 39, 45},
                      .base = {27, 29, 34},
                      .alternate = {33, 35, 41},
                      .text = {222, 225, 231},
                      .faint = {150, 155, 166},
                      .button = {50, 53, 60},
                      .highlight = {58, 112, 178},
                      .link = {112, 168, 232},
                      .tooltip = {46, 49, 56}});
}

Theme::Theme(QObject* parent) : QObject(parent) {
  desktop_is_dark_ = QApplication::palette().color(QPalette::Window).lightness() < 128;
}

void Theme::Set(const QString& name) {
  name_ = name == u"light" || name == u"dark" ? name : QStringLiteral("system");
  Apply();
}

void Theme::Apply() {
  const bool dark = name_ == u"dark" || (name_ == u"system" && desktop_is_dark_);
  const QPalette palette = dark ? DarkPalette() : LightPalette();
  QApplication::setPalette(palette);
  QToolTip::setPalette(palette);
}

void Theme::FollowDesktop() {
  // Without the variable Qt would try to start a bus, which takes long and helps nobody.
  if (qEnvironmentVariableIsEmpty("DBUS_SESSION_BUS_ADDRESS")) return;
  QDBusConnection bus = QDBusConnection::sessionBus();
  if (!bus.isConnected()) return;
  bus.connect(QLatin1String(kService), QLatin1String(kPath), QLatin1String(kInterface),
              QStringLiteral("SettingChanged"), this, SLOT(DesktopSettingChanged(QString, QString, QDBusVariant)));
  QDBusMessage read = QDBusMessage::createMethodCall(QLatin1String(kService), QLatin1String(kPath),
                                                     QLatin1String(kInterface), QStringLiteral("Read"));
  read << QLatin1String(kGroup) << QLatin1String(kSchemeKey);
  auto* watcher = new QDBusPendingCallWatcher(bus.asyncCall(read), this);
  connect(watcher, &QDBusPendingCallWatcher::finished, this, [this, watcher] {
    watcher->deleteLater();
    const QDBusPendingReply<QDBusVariant> reply = *watcher;
    // Read() wraps the value in a second variant.
    if (reply.isValid())
      DesktopSettingChanged(QLatin1String(kGroup), QLatin1String(kSchemeKey),
                            reply.value().variant().value<QDBusVariant>());
  });
}

void Theme::DesktopSettingChanged(const QString& group, const QString& key, const QDBusVariant& value) {
  if (group != QLatin1String(kGroup) || key != QLatin1String(kSchemeKey)) return;
  desktop_is_dark_ = value.variant().toUInt() == kPrefersDark;
  Apply();
}

}  // namespace headscope::ui
