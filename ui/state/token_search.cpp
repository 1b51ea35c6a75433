// SPDX-License-Identifier: Apache-2.0
#include "token_search.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace headscope::ui {
namespace {

// Where `text` stands in the tokens, no two overlapping, each place from the token in which it begins to the one in
// which it ends. By Knuth, Morris and Pratt: std::string::find goes back for whatever almost matches.
std::vector<TokenSpan> SpansOf(std::string_view text, const std::vector<std::string>& token_text) {
  std::vector<size_t> border(text.size(), 0);  // of each beginning of `text`, its longest other one that also ends it
  for (size_t i = 1, length = 0; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    if (text[i] == text[length]) ++length;
    border[i] = length;
  }
  std::vector<size_t> begins;  // of each token in all of their text
  std::vector<TokenSpan> spans;
  size_t at = 0, matched = 0;
  for (const std::string& token : token_text) {
    begins.push_back(at);
    for (const char byte : token) {
      ++at;
      while (matched > 0 && byte != text[matched]) matched = border[matched - 1];
      if (byte == text[matched]) ++matched;
      if (matched < text.size()) continue;
      // The last token that begins at or before it: tokens without text share a begin with the one after them.
      const auto first = std::upper_bound(begins.begin(), begins.end(), at - matched) - begins.begin() - 1;
      spans.push_back({first, std::ssize(begins)});
      if (spans.size() == kMostAnswerSpans) return spans;
      matched = 0;
    }
  }
  return spans;
}

}  // namespace

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
  if (first != std::string::npos && trace.expected_answer.size() - first <= kMostAnswerBytes)
    spans = SpansOf(std::string_view(trace.expected_answer).substr(first), trace.token_text);
  const TokenSpan given{trace.model_answer_begin, trace.model_answer_end};
  if (given.begin < 0 || given.begin >= given.end || given.end > std::ssize(trace.token_text)) return spans;
  // A right answer was found above, too.
  std::erase_if(spans, [&](const TokenSpan& span) { return span.begin < given.end && given.begin < span.end; });
  spans.insert(std::upper_bound(spans.begin(), spans.end(), given,
                                [](const TokenSpan& a, const TokenSpan& b) { return a.begin < b.begin; }),
               given);
  return spans;
}

}  // namespace headscope::ui
