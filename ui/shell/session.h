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
  QJsonObject canvas;      // HeadCanvas::ViewState
  QJsonObject head_table;  // HeadTable::ViewState
  QString metric;
  QString theme = QStringLiteral("system");  // system, light or dark
  QStringList recent;                        // traces, latest first

  static constexpr int kMostRecent = 10;
  void AddRecent(const QString& path);

  QJsonObject ToJson() const;
  static Session FromJson(const QJsonObject& json);

  // session.json in the user's config folder ($XDG_CONFIG_HOME/headscope).
  static QString DefaultPath();
  // A file that is absent, no JSON object or larger than any session gives the defaults.
  static Session Load(const QString& path);
  // Written to a temporary name and renamed, together with the recent files that another window has put there
  // meanwhile. Returns an empty string or one sentence.
  QString Save(const QString& path) const;
};

}  // namespace headscope::ui
