// SPDX-License-Identifier: Apache-2.0
// Finds text in a trace's tokens, across token borders. Pure.
#pragma once

#include <QString>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/types/token_spans.h"
#include "ui/workbench.h"

namespace headscope::ui {

// Positions of the tokens in which a match of `text` begins, ascending; case is ignored. Nothing for an empty text.
// Cost: one pass over all tokens' text.
std::vector<int64_t> FindTokens(const std::vector<std::string>& token_text, const QString& text);

using analysis::kMostAnswerBytes;
using analysis::kMostAnswerSpans;
using analysis::TokenSpan;
// Of the open trace, as analysis::AnswerSpans.
std::vector<TokenSpan> AnswerSpans(const TraceSummary& trace);

}  // namespace headscope::ui
