// SPDX-License-Identifier: Apache-2.0
#include "fuzzy_match.h"

#include <algorithm>
#include <vector>

namespace headscope::ui {

int FuzzyScore(const QString& pattern, const QString& text) {
  constexpr int kLetter = 1, kInARow = 7, kWordStart = 6;  // "fit" is Fit before it is FInd Token
  QString letters;
  for (const QChar c : pattern) {
    if (!c.isSpace()) letters += c.toCaseFolded();
  }
  if (letters.isEmpty()) return 0;
  const int n = static_cast<int>(text.size());
  // best[j]: the best score with the letters so far, the last of them at text position j.
  std::vector<int> best(static_cast<size_t>(n), -1);
  for (int i = 0; i < letters.size(); ++i) {
    std::vector<int> next(static_cast<size_t>(n), -1);
    int best_before = i == 0 ? 0 : -1;  // over positions before j - 1
    for (int j = 0; j < n; ++j) {
      const int adjacent = i > 0 && j > 0 ? best[static_cast<size_t>(j - 1)] : -1;
      if (text[j].toCaseFolded() == letters[i]) {
        const bool word_start = j == 0 || !text[j - 1].isLetterOrNumber();
        const int gain = kLetter + (word_start ? kWordStart : 0);
        if (best_before >= 0) next[static_cast<size_t>(j)] = best_before + gain;
        if (adjacent >= 0)
          next[static_cast<size_t>(j)] = std::max(next[static_cast<size_t>(j)], adjacent + gain + kInARow);
      }
      if (i > 0) best_before = std::max(best_before, adjacent);
    }
    best = std::move(next);
  }
  return best.empty() ? -1 : *std::max_element(best.begin(), best.end());
}

}  // namespace headscope::ui
