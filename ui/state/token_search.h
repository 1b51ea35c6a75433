// SPDX-License-Identifier: Apache-2.0
// Finds text in a trace's tokens, across token borders. Pure.
#pragma once

#include <QString>
#include <cstdint>
#include <string>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

// Positions of the tokens in which a match of `text` begins, ascending; case is ignored. Nothing for an empty text.
// Cost: one pass over all tokens' text.
std::vector<int64_t> FindTokens(const std::vector<std::string>& token_text, const QString& text);

// Tokens [begin, end).
struct TokenSpan {
  int64_t begin = 0, end = 0;
  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};

// Where a task's prompt says its answer (the needle among these places), the first kMostAnswerSpans of them, and where
// the trace says that the model's own answer was generated, ascending. Nothing for a trace of no task; an expected
// answer of more than kMostAnswerBytes is not looked for. Cost: linear in all tokens' text and the answer, whatever
// they hold: both are a file's.
inline constexpr size_t kMostAnswerBytes = 256, kMostAnswerSpans = 1000;
std::vector<TokenSpan> AnswerSpans(const TraceSummary& trace);

}  // namespace headscope::ui
