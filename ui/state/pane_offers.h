// SPDX-License-Identifier: Apache-2.0
// What panes offer to the window's commands and session, by name: those know neither the pane nor its widgets. What a
// pane offered goes with it.
#pragma once

#include <QAction>
#include <QJsonObject>
#include <QList>
#include <QObject>
#include <QPoint>
#include <QString>
#include <functional>
#include <map>
#include <vector>

#include "analysis/types/head_statistics.h"
#include "ui/workbench.h"

namespace headscope::ui {

class PaneOffers : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;

  // A picture of the pane, in a file. The window makes a command of it.
  struct Picture {
    QString name;   // in the command's, and of the file that is suggested: "trade-off"
    QString title;  // in the menu: "Trade-off"
    // `png_width`: pixels across of a .png; 0: twice the pane's. Returns an empty string or one sentence.
    std::function<QString(const QString& path, int png_width)> write;
    std::function<QString()> why_not;          // why there is none now; empty: there is one
    std::function<TableDrawing()> table = {};  // what is drawn, in the place of `write`, of a pane of text
  };
  // What a session keeps of a pane. `restore` takes what it understands: session files are untrusted.
  struct View {
    std::function<QJsonObject()> state;
    std::function<void(const QJsonObject& state)> restore;
  };

  void OfferPicture(QObject* pane, Picture picture);
  void OfferView(QObject* pane, const QString& name, View view);

  const std::vector<Picture>& pictures() const { return pictures_; }  // in the order in which they were offered
  // Of every pane that offers one, by name; a pane that is not there takes none back.
  QJsonObject ViewStates() const;
  void RestoreViews(const QJsonObject& states) const;

 Q_SIGNALS:
  void PicturesChanged();
  void ViewChanged();
  // `more`: what the pane itself offers there, as entries of the menu. Those that open a menu go with it.
  void RunsMenuWanted(QPoint global, const QList<QAction*>& more = {});
  // Of a head, or of several that are selected: at least one.
  void HeadsMenuWanted(const std::vector<headscope::analysis::HeadId>& heads, QPoint global,
                       const QList<QAction*>& more = {});

 private:
  std::vector<Picture> pictures_;
  std::map<QString, View> views_;
};

}  // namespace headscope::ui
