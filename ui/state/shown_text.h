// SPDX-License-Identifier: Apache-2.0
// Text that may have come from a file, as the window shows it: control characters and the like are visible escapes
// (analysis/types/printable.h), and nothing in it is markup.
#pragma once

#include <QString>
#include <string>

#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"

namespace headscope::ui {

// One line, for labels with plain text, cells and titles.
inline QString Shown(const std::string& text) {
  return QString::fromStdString(analysis::Printable(text));
}
inline QString Shown(const QString& text) {
  return Shown(text.toStdString());
}

// A file's name where room is short: without its middle, for names often begin alike and end in what tells them apart.
inline QString ShownShort(const QString& text) {
  constexpr qsizetype kMost = 40;
  const QString shown = Shown(text);
  if (shown.size() <= kMost) return shown;
  qsizetype before = kMost / 2 - 1, after = kMost / 2;
  // Half of a pair is no character.
  if (shown[before - 1].isHighSurrogate()) --before;
  if (shown[shown.size() - after].isLowSurrogate()) --after;
  return shown.left(before) + QChar(0x2026) + shown.right(after);
}

// "16,384", in whatever language the system is.
inline QString CountText(qint64 count) {
  return QString::fromStdString(analysis::Grouped(count));
}

// For tooltips, which Qt otherwise reads as HTML where they look like it.
inline QString ShownToolTip(const QString& text) {
  return text.isEmpty() ? text : QStringLiteral("<span>%1</span>").arg(Shown(text).toHtmlEscaped());
}

// For menus, where & marks a key.
inline QString ShownInMenu(const QString& text) {
  return Shown(text).replace(u'&', QStringLiteral("&&"));
}

}  // namespace headscope::ui
