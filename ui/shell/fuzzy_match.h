// SPDX-License-Identifier: Apache-2.0
// Fuzzy search of the command palette: the typed letters occur in order, and letters at word starts and in a row count
// more. Pure.
#pragma once

#include <QString>

namespace headscope::ui {

// Higher is better; -1 when `text` does not hold the letters of `pattern` in order. Spaces in the pattern and case are
// ignored; an empty pattern matches everything with 0.
int FuzzyScore(const QString& pattern, const QString& text);

}  // namespace headscope::ui
