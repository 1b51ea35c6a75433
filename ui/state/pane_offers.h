// SPDX-License-Identifier: Apache-2.0
// What panes offer to the window's commands and session, by name: those know neither the pane nor its widgets. What a
// pane offered goes with it.
#pragma once

#include <QJsonObject>
#include <QObject>
#include <QPoint>
#include <QString>
#include <functional>
#include <map>

namespace headscope::ui {

class PaneOffers : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;

  // Writes the pane's picture to a file; returns an empty string or one sentence.
  using WritesPicture = std::function<QString(const QString& path)>;
  // What a session keeps of a pane. `restore` takes what it understands: session files are untrusted.
  struct View {
    std::function<QJsonObject()> state;
    std::function<void(const QJsonObject& state)> restore;
  };

  void OfferPicture(QObject* pane, const QString& name, WritesPicture write);
  void OfferView(QObject* pane, const QString& name, View view);

  QString WritePicture(const QString& name, const QString& path) const;
  // Of every pane that offers one, by name; a pane that is not there takes none back.
  QJsonObject ViewStates() const;
  void RestoreViews(const QJsonObject& states) const;

 Q_SIGNALS:
  void ViewChanged();
  void RunsMenuWanted(QPoint global);

 private:
  std::map<QString, WritesPicture> pictures_;
  std::map<QString, View> views_;
};

}  // namespace headscope::ui
