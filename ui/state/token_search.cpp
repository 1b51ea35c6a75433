// SPDX-License-Identifier: Apache-2.0
#include "token_search.h"

#include <algorithm>
#include <utility>

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
  std::vector<TokenSpan> spans;
  // The space before it belongs to the place where it was asked for.
  const size_t first = trace.expected_answer.find_first_not_of(' ');
  if (first == std::string::npos) return spans;
  const std::string answer = trace.expected_answer.substr(first);
  std::string whole;
  std::vector<size_t> begin;  // of each token in `whole`
  begin.reserve(trace.token_text.size());
  for (const std::string& token : trace.token_text) {
    begin.push_back(whole.size());
    whole += token;
  }
  const auto add = [&](size_t from, size_t to) {
    const auto first_token = std::upper_bound(begin.begin(), begin.end(), from) - begin.begin() - 1;
    const auto end_token = std::lower_bound(begin.begin(), begin.end(), to) - begin.begin();
    spans.push_back({first_token, end_token});
  };
  for (size_t at = whole.find(answer); at != std::string::npos; at = whole.find(answer, at + answer.size()))
    add(at, at + answer.size());
  // The last occurrence of its text is where it was generated.
  const size_t given = trace.model_answer.empty() ? std::string::npos : whole.rfind(trace.model_answer);
  if (given != std::string::npos) {
    add(given, given + trace.model_answer.size());
    // A right answer was found above.
    std::sort(spans.begin(), spans.end(), [](const TokenSpan& a, const TokenSpan& b) {
      return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
    });
    std::vector<TokenSpan> apart;
    for (const TokenSpan& span : spans) {
      if (apart.empty() || span.begin >= apart.back().end) apart.push_back(span);
    }
    spans = std::move(apart);
  }
  return spans;
}

}  // namespace headscope::ui
