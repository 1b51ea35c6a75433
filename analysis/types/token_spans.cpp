// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/token_spans.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace headscope::analysis {
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

std::vector<TokenSpan> AnswerSpans(const std::string& expected_answer, const std::vector<std::string>& token_text,
                                   TokenSpan given) {
  std::vector<TokenSpan> spans;
  // The space before it belongs to the place where it was asked for.
  const size_t first = expected_answer.find_first_not_of(' ');
  if (first != std::string::npos && expected_answer.size() - first <= kMostAnswerBytes)
    spans = SpansOf(std::string_view(expected_answer).substr(first), token_text);
  if (given.begin < 0 || given.begin >= given.end || given.end > std::ssize(token_text)) return spans;
  // A right answer was found above, too.
  std::erase_if(spans, [&](const TokenSpan& span) { return span.begin < given.end && given.begin < span.end; });
  spans.insert(std::upper_bound(spans.begin(), spans.end(), given,
                                [](const TokenSpan& a, const TokenSpan& b) { return a.begin < b.begin; }),
               given);
  return spans;
}

}  // namespace headscope::analysis
