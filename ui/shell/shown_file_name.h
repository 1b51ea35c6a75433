// SPDX-License-Identifier: Apache-2.0
// The name of a file that is known by its path, where room is short.
#pragma once

#include <QFileInfo>
#include <string>

#include "shown_text.h"

namespace headscope::ui {

inline QString ShownFileName(const std::string& path) {
  return ShownShort(QFileInfo(QString::fromStdString(path)).fileName());
}

}  // namespace headscope::ui
