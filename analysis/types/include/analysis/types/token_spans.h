// SPDX-License-Identifier: Apache-2.0
// Where a task's answer stands in a trace: what the axes of its maps mark. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace headscope::analysis {

// Tokens [begin, end).
struct TokenSpan {
  int64_t begin = 0, end = 0;
  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};

// Where a task's prompt says its answer (the needle among these places), the first kMostAnswerSpans of them, and where
// the trace says that the model's own answer was generated (`given`; empty: nowhere), ascending. Nothing for a trace of
// no task; an expected answer of more than kMostAnswerBytes is not looked for. Cost: linear in all tokens' text and the
// answer, whatever they hold: both are a file's.
inline constexpr size_t kMostAnswerBytes = 256, kMostAnswerSpans = 1000;
std::vector<TokenSpan> AnswerSpans(const std::string& expected_answer, const std::vector<std::string>& token_text,
                                   TokenSpan given);

}  // namespace headscope::analysis
