// SPDX-License-Identifier: Apache-2.0
// What the window remembers between starts: a JSON file in the user's config folder. The file is untrusted: what is
// missing or of a wrong type keeps its default.
#pragma once

#include <QByteArray>
#include <QJsonObject>
#include <QString>
#include <QStringList>
#include <optional>

#include "analysis/types/head_statistics.h"

namespace headscope::ui {

struct Session {
  QByteArray window_geometry, window_layout;
  QString last_trace;
  std::optional<analysis::HeadId> head;
  QJsonObject canvas;   // HeadCanvas::ViewState
  QJsonObject panes;    // PaneOffers::ViewStates
  QJsonObject layouts;  // saved by name, each as base64 of QMainWindow::saveState
  QJsonObject classes;  // ClassSettings::ToJson
  QString metric;
  QString theme = QStringLiteral("system");  // system, light or dark
  int memory_mib = 0;                        // of the window's caches; 0: the default
  QStringList recent;                        // traces, latest first
  QStringList opened;                        // that no file knows of yet, latest last

  static constexpr int kMostRecent = 10;
  void AddRecent(const QString& path);  // and to `opened`

  QJsonObject ToJson() const;
  static Session FromJson(const QJsonObject& json);

  // session.json in the user's config folder ($XDG_CONFIG_HOME/headscope).
  static QString DefaultPath();
  // A file that is absent, no JSON object or larger than any session gives the defaults, and so
  // does one that has a name twice. `error` (may be null) is then one sentence, but for an absent file.
  static Session Load(const QString& path, QString* error = nullptr);
  // Puts into the file what differs from `before`, which is what it was told last: all else there may be another
  // window's. What is opened goes to the head of its recent files. Waits for other windows (state_file.h). Returns an
  // empty string or one sentence.
  QString Save(const QString& path, const Session& before) const;
  QString Save(const QString& path) const { return Save(path, Session()); }

 private:
  QJsonObject MergedInto(const QJsonObject& present, const Session& before) const;
};

}  // namespace headscope::ui
