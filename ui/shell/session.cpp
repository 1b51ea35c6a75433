#include "session.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLockFile>
#include <QSaveFile>
#include <QStandardPaths>

namespace headscope::ui {

namespace {

constexpr qint64 kMostBytes = 1 << 20;
constexpr int kWaitForTurnMs = 1000;

}  // namespace

void Session::AddRecent(const QString& path) {
  recent.removeAll(path);
  recent.prepend(path);
  while (recent.size() > kMostRecent) recent.removeLast();
}

QJsonObject Session::ToJson() const {
  QJsonObject json{{QStringLiteral("schema"), QStringLiteral("headscope-session-1")},
                   {QStringLiteral("window_geometry"), QString::fromLatin1(window_geometry.toBase64())},
                   {QStringLiteral("window_layout"), QString::fromLatin1(window_layout.toBase64())},
                   {QStringLiteral("last_trace"), last_trace},
                   {QStringLiteral("canvas"), canvas},
                   {QStringLiteral("head_table"), head_table},
                   {QStringLiteral("metric"), metric},
                   {QStringLiteral("theme"), theme},
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
  session.head_table = json.value(QLatin1String("head_table")).toObject();
  session.metric = text("metric");
  const QString theme = text("theme");
  if (theme == u"light" || theme == u"dark") session.theme = theme;
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

Session Session::Load(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly) || file.size() > kMostBytes) return {};
  return FromJson(QJsonDocument::fromJson(file.read(kMostBytes)).object());
}

QString Session::Save(const QString& path) const {
  QDir().mkpath(QFileInfo(path).path());
  // Two windows that end at once take turns. A folder that takes no lock may still take the file: then the worst is a
  // recent file that is forgotten.
  QLockFile turn(path + QStringLiteral(".lock"));
  turn.tryLock(kWaitForTurnMs);
  Session merged = *this;
  for (const QString& other : Load(path).recent) {
    if (merged.recent.size() < kMostRecent && !merged.recent.contains(other)) merged.recent.append(other);
  }
  QSaveFile file(path);
  const QByteArray text = QJsonDocument(merged.ToJson()).toJson();
  // Without the flush a full disk goes unnoticed: commit() puts a file in place whose last buffer was not written.
  if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size() || !file.flush() || !file.commit()) {
    return QStringLiteral("The session could not be kept in %1: %2.").arg(path, file.errorString());
  }
  return {};
}

}  // namespace headscope::ui
