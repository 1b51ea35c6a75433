// SPDX-License-Identifier: Apache-2.0
#include "token_search.h"

#include <algorithm>

namespace headscope::ui {

std::vector<int64_t> FindTokens(const std::vector<std::string>& token_text, const QString& text) {
  std::vector<int64_t> found;
  if (text.isEmpty()) return found;
  QString whole;
  std::vector<qsizetype> begin;  // of each token in `whole`
  begin.reserve(token_text.size());
  for (const std::string& token : token_text) {
    begin.push_back(whole.size());
    whole += QString::fromStdString(token);
  }
  for (qsizetype at = whole.indexOf(text, 0, Qt::CaseInsensitive); at >= 0;
       at = whole.indexOf(text, at + 1, Qt::CaseInsensitive)) {
    // The last token that begins at or before the match: tokens without text share a begin with the one after them.
    const auto token = std::upper_bound(begin.begin(), begin.end(), at) - begin.begin() - 1;
    if (found.empty() || found.back() != token) found.push_back(token);
  }
  return found;
}

std::vector<TokenSpan> AnswerSpans(const TraceSummary& trace) {
  return analysis::AnswerSpans(trace.expected_answer, trace.token_text,
                               {trace.model_answer_begin, trace.model_answer_end});
}

}  // namespace headscope::ui
