// SPDX-License-Identifier: Apache-2.0
#include "state_file.h"

#include <QByteArrayView>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QLockFile>
#include <QSaveFile>
#include <optional>
#include <set>
#include <vector>

#include "base/quoted_text.h"

namespace headscope::ui {
namespace {

// Others hold the lock for a few milliseconds; one that is stopped in a debugger must not stop this window for good.
constexpr int kWaitForTurnMs = 10000;

QString Sentence(const QString& path, const QString& why) {
  return QStringLiteral("%1 could not be written: %2.").arg(path, why);
}

// A string of a valid JSON text, without its quotes, as Qt reads it.
QString Unescaped(QByteArrayView raw) {
  QString text;
  for (;;) {
    const qsizetype escape = raw.indexOf('\\');
    text += QString::fromUtf8(escape < 0 ? raw : raw.first(escape));
    if (escape < 0) return text;
    const char letter = raw[escape + 1];
    const bool is_code = letter == 'u';
    const QByteArrayView letters = "bfnrt", meant = "\b\f\n\r\t";
    const qsizetype control = letters.indexOf(letter);
    if (is_code) {
      text += QChar(raw.sliced(escape + 2, 4).toUShort(nullptr, 16));
    } else {
      text += QLatin1Char(control < 0 ? letter : meant[control]);
    }
    raw = raw.sliced(escape + (is_code ? 6 : 2));
  }
}

// The first name that an object of a valid JSON text has twice, of which Qt takes the last. The text is untrusted, and
// the window waits: of its strings only the names are looked at.
std::optional<QString> NameTwice(const QByteArray& text) {
  std::vector<std::set<QString>> names;  // of the objects and lists that are open
  QByteArrayView last;                   // string
  for (qsizetype at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"': {
        const qsizetype begin = ++at;
        for (; text[at] != '"'; ++at) {
          if (text[at] == '\\') ++at;
        }
        last = QByteArrayView(text).sliced(begin, at - begin);
        break;
      }
      case ':':
        if (const auto [name, is_new] = names.back().insert(Unescaped(last)); !is_new) return *name;
        break;
      case '{':
      case '[':
        names.emplace_back();
        break;
      case '}':
      case ']':
        names.pop_back();
        break;
      default:
        break;
    }
  }
  return {};
}

struct StateFileText {
  QJsonObject object;
  QString why_not;              // a clause; empty: it is read, or absent
  bool has_name_twice = false;  // what it holds is known but for which of the two
};

StateFileText ReadText(const QString& path, qint64 most_bytes) {
  const auto refuse = [](const QString& why, bool has_name_twice = false) {
    return StateFileText{.object = {}, .why_not = why, .has_name_twice = has_name_twice};
  };
  QFile file(path);
  if (!file.exists()) return {};
  if (!file.open(QIODevice::ReadOnly)) return refuse(file.errorString());
  if (file.size() > most_bytes) return refuse(QStringLiteral("it is larger than any file that headscope keeps there"));
  const QByteArray text = file.read(file.size());  // no more: its room is made first
  const QJsonDocument document = QJsonDocument::fromJson(text);
  if (!document.isObject()) return refuse(QStringLiteral("it is not a JSON object"));
  if (const std::optional<QString> name = NameTwice(text)) {
    return refuse(QStringLiteral("one of its objects has the name %1 twice; remove one of the two")
                      .arg(QString::fromStdString(Quoted(name->toStdString()))),
                  /*has_name_twice=*/true);
  }
  return {.object = document.object(), .why_not = {}};
}

}  // namespace

QJsonObject ReadStateFile(const QString& path, qint64 most_bytes, QString* error) {
  const StateFileText read = ReadText(path, most_bytes);
  if (error != nullptr && !read.why_not.isEmpty())
    *error = QStringLiteral("%1 was not read: %2.").arg(path, read.why_not);
  return read.object;
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
  const StateFileText present = ReadText(path, most_bytes);
  if (!present.why_not.isEmpty() && (keep_foreign || present.has_name_twice))
    return QStringLiteral("%1 was not changed: %2.").arg(path, present.why_not);
  const QJsonObject changed = change(present.object);
  if (changed == present.object && QFile::exists(path)) return {};
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
