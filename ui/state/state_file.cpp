// SPDX-License-Identifier: Apache-2.0
#include "state_file.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QLockFile>
#include <QSaveFile>

namespace headscope::ui {
namespace {

// Others hold the lock for a few milliseconds; one that is stopped in a debugger must not stop this window for good.
constexpr int kWaitForTurnMs = 10000;

QString Sentence(const QString& path, const QString& why) {
  return QStringLiteral("%1 could not be written: %2.").arg(path, why);
}

}  // namespace

QJsonObject ReadStateFile(const QString& path, qint64 most_bytes, QString* error) {
  QFile file(path);
  const auto refuse = [&](const QString& why) {
    if (error != nullptr) *error = QStringLiteral("%1 was not changed: %2.").arg(path, why);
    return QJsonObject();
  };
  if (!file.exists()) return {};
  if (!file.open(QIODevice::ReadOnly)) return refuse(file.errorString());
  if (file.size() > most_bytes) return refuse(QStringLiteral("it is larger than any file that headscope keeps there"));
  const QJsonDocument document = QJsonDocument::fromJson(file.read(file.size()));  // no more: its room is made first
  if (!document.isObject()) return refuse(QStringLiteral("it is not a JSON object"));
  return document.object();
}

QString UpdateStateFile(const QString& path, qint64 most_bytes, bool keep_foreign,
                        const std::function<QJsonObject(const QJsonObject& present)>& change) {
  const QString folder = QFileInfo(path).path();
  if (!QDir().mkpath(folder)) return Sentence(path, QStringLiteral("the folder %1 cannot be created").arg(folder));
  QLockFile turn(path + QStringLiteral(".lock"));
  if (!turn.tryLock(kWaitForTurnMs)) {
    return Sentence(path, turn.error() == QLockFile::LockFailedError
                              ? QStringLiteral("another headscope is still writing it")
                              : QStringLiteral("the folder %1 is not writable").arg(folder));
  }
  QString foreign;
  const QJsonObject present = ReadStateFile(path, most_bytes, &foreign);
  if (keep_foreign && !foreign.isEmpty()) return foreign;
  const QJsonObject changed = change(present);
  if (changed == present && QFile::exists(path)) return {};
  QByteArray text = QJsonDocument(changed).toJson();
  // What a person hardly reads any more takes less than half of that without its spaces.
  if (text.size() > most_bytes / 8) text = QJsonDocument(changed).toJson(QJsonDocument::Compact);
  // No window would read it again, and all that it held before would be lost with it.
  if (text.size() > most_bytes) return Sentence(path, QStringLiteral("it would be larger than any file that is read"));
  QSaveFile file(path);
  // Without the flush a full disk goes unnoticed: commit() puts a file in place whose last buffer was not written.
  // commit() itself has the disk take the bytes before it renames.
  if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size() || !file.flush() || !file.commit())
    return Sentence(path, file.errorString());
  return {};
}

}  // namespace headscope::ui
