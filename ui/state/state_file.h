// SPDX-License-Identifier: Apache-2.0
// JSON files that several windows share and that must outlive any of them: a file is read, changed and written under a
// lock beside it, to a temporary name that is flushed to the disk and renamed. A process that is killed at any moment
// leaves the file as it was or as it was to be, and its lock is known to be dead.
#pragma once

#include <QJsonObject>
#include <QString>
#include <functional>

namespace headscope::ui {

// An absent file is an empty object. `error` (may be null) is one sentence when something is there that is no JSON
// object, is larger than `most_bytes` or cannot be read; the object is then empty.
QJsonObject ReadStateFile(const QString& path, qint64 most_bytes, QString* error = nullptr);

// Replaces the file by what `change` makes of its present object. Makes its folder. Waits for other windows, so not on
// the window's thread. Returns an empty string or one sentence; a file that holds something else is left alone when
// `keep_foreign`, and replaced otherwise. An object that has a name twice is left alone in any case: somebody can mend
// it.
QString UpdateStateFile(const QString& path, qint64 most_bytes, bool keep_foreign,
                        const std::function<QJsonObject(const QJsonObject& present)>& change);

}  // namespace headscope::ui
