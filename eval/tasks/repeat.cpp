// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tasks/random_text.h"
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

constexpr size_t kRepeatedTokens = 64;
constexpr size_t kCueTokens = 14;

class RepeatTask : public Task {
 public:
  std::string_view name() const override { return "repeat"; }
  std::string_view help() const override {
    return "64 random tokens at a random place in a text; shows the first 14 again and asks for the rest";
  }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    Draft draft;
    for (size_t i = 0; i < num_questions; ++i) {
      std::vector<int32_t> chunk;
      while (chunk.size() < kRepeatedTokens) {
        const int32_t id = text.plain()[random->Below(text.plain().size())];
        // A trace holds the answer as text that ends at its first zero byte.
        if (text.tokenizer().TokenBytes(id).find('\0') == std::string::npos) chunk.push_back(id);
      }
      DraftQuestion question;
      question.question.tokens.assign(chunk.begin(), chunk.begin() + kCueTokens);
      question.question.answer.assign(chunk.begin() + kCueTokens, chunk.end());
      question.question.answer_text = text.tokenizer().Decode(question.question.answer);
      question.facts = {i};
      draft.questions.push_back(std::move(question));
      chunk.push_back(text.line_feed());
      draft.facts.push_back({std::move(chunk)});
    }
    return draft;
  }
};

}  // namespace

const Task& Repeat() {
  static const RepeatTask task;
  return task;
}

}  // namespace headscope::eval
