// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <QJsonArray>
#include <QStandardPaths>

#include "state_file.h"
#include "ui/memory_budget.h"

namespace headscope::ui {

namespace {

constexpr qint64 kMostSessionBytes = 1 << 20;

}  // namespace

void Session::AddRecent(const QString& path) {
  recent.removeAll(path);
  recent.prepend(path);
  while (recent.size() > kMostRecent) recent.removeLast();
  opened.removeAll(path);
  opened.append(path);
}

QJsonObject Session::ToJson() const {
  QJsonObject json{{QStringLiteral("schema"), QStringLiteral("headscope-session-1")},
                   {QStringLiteral("window_geometry"), QString::fromLatin1(window_geometry.toBase64())},
                   {QStringLiteral("window_layout"), QString::fromLatin1(window_layout.toBase64())},
                   {QStringLiteral("last_trace"), last_trace},
                   {QStringLiteral("canvas"), canvas},
                   {QStringLiteral("panes"), panes},
                   {QStringLiteral("layouts"), layouts},
                   {QStringLiteral("classes"), classes},
                   {QStringLiteral("metric"), metric},
                   {QStringLiteral("theme"), theme},
                   {QStringLiteral("memory_mib"), memory_mib},
                   {QStringLiteral("recent"), QJsonArray::fromStringList(recent)}};
  if (head) json.insert(QStringLiteral("head"), QJsonArray{head->layer, head->head});
  return json;
}

Session Session::FromJson(const QJsonObject& json) {
  Session session;
  const auto text = [&](const char* name) { return json.value(QLatin1String(name)).toString(); };
  session.window_geometry = QByteArray::fromBase64(text("window_geometry").toLatin1());
  session.window_layout = QByteArray::fromBase64(text("window_layout").toLatin1());
  session.last_trace = text("last_trace");
  session.canvas = json.value(QLatin1String("canvas")).toObject();
  session.panes = json.value(QLatin1String("panes")).toObject();
  // What older versions kept of the one pane that had a view.
  const QJsonValue head_table = json.value(QLatin1String("head_table"));
  if (session.panes.isEmpty() && head_table.isObject()) session.panes[QStringLiteral("head-table")] = head_table;
  const QJsonObject layouts = json.value(QLatin1String("layouts")).toObject();
  for (auto layout = layouts.begin(); layout != layouts.end(); ++layout) {
    if (layout.value().isString()) session.layouts[layout.key()] = layout.value();
  }
  session.classes = json.value(QLatin1String("classes")).toObject();
  session.metric = text("metric");
  const QString theme = text("theme");
  if (theme == u"light" || theme == u"dark") session.theme = theme;
  const int memory = json.value(QLatin1String("memory_mib")).toInt();
  if (memory >= (MemoryBudget::kLeastBytes >> 20)) session.memory_mib = memory;
  const QJsonArray head = json.value(QLatin1String("head")).toArray();
  if (head.size() == 2) session.head = analysis::HeadId{head[0].toInt(-1), head[1].toInt(-1)};
  for (const QJsonValue path : json.value(QLatin1String("recent")).toArray()) {
    if (path.isString() && session.recent.size() < kMostRecent) session.recent.append(path.toString());
  }
  return session;
}

QString Session::DefaultPath() {
  return QStandardPaths::writableLocation(QStandardPaths::GenericConfigLocation) +
         QStringLiteral("/headscope/session.json");
}

Session Session::Load(const QString& path, QString* error) {
  return FromJson(ReadStateFile(path, kMostSessionBytes, error));
}

QJsonObject Session::MergedInto(const QJsonObject& present, const Session& before) const {
  QJsonObject merged = ToJson();
  const QJsonObject mine = merged, told = before.ToJson();
  const auto changed = [&](const char* name) { return mine[QLatin1String(name)] != told[QLatin1String(name)]; };
  // A trace, its head and how it was looked at belong together.
  const bool trace_changed = changed("last_trace") || changed("head") || changed("canvas");
  for (const QString& name : mine.keys() + QStringList{QStringLiteral("head")}) {
    const bool of_trace = name == u"last_trace" || name == u"head" || name == u"canvas";
    if (of_trace ? trace_changed : mine[name] != told[name]) continue;
    if (present.contains(name)) merged[name] = present[name];
  }
  // Another window may have saved layouts of its own.
  QJsonObject kept = present[QStringLiteral("layouts")].toObject();
  for (const QString& name : layouts.keys() + before.layouts.keys()) {
    if (layouts[name] == before.layouts[name]) continue;
    if (layouts.contains(name)) {
      kept[name] = layouts[name];
    } else {
      kept.remove(name);
    }
  }
  merged[QStringLiteral("layouts")] = kept;
  Session recents;
  recents.recent = FromJson(present).recent;
  for (const QString& path : opened) recents.AddRecent(path);
  for (const QString& path : recent) {
    if (recents.recent.size() < kMostRecent && !recents.recent.contains(path)) recents.recent.append(path);
  }
  merged[QStringLiteral("recent")] = QJsonArray::fromStringList(recents.recent);
  return merged;
}

QString Session::Save(const QString& path, const Session& before) const {
  const QString error = UpdateStateFile(path, kMostSessionBytes, /*keep_foreign=*/false,
                                        [&](const QJsonObject& present) { return MergedInto(present, before); });
  return error.isEmpty() ? error : QStringLiteral("The session was not saved. ") + error;
}

}  // namespace headscope::ui
