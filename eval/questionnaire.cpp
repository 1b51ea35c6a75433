// SPDX-License-Identifier: Apache-2.0
#include "questionnaire.h"

#include <algorithm>

#include "eval/prose_file.h"

namespace headscope::eval {

Questionnaire::Questionnaire(const EvaluateRequest& request, const model::Tokenizer& tokenizer)
    : request_(request), maker_(tokenizer, ReadProse(request.prose_path)) {}

TaskSet Questionnaire::NextSet(const TaskScore& score) const {
  const int32_t wanted = std::min(request_.questions_per_context, request_.samples - score.samples);
  return maker_.Make(FindTask(score.task), score.length, SeedOf(score), wanted);
}

TaskMaker::ProseWindow Questionnaire::NextWindow(const TaskScore& score) const {
  return maker_.WindowAndRest(score.length, SeedOf(score));
}

// A window scores every one of its tokens, so as many windows as the other tasks read contexts are plenty.
int32_t Questionnaire::NumWindows() const {
  return (request_.samples - 1) / request_.questions_per_context + 1;
}

int64_t Questionnaire::TokensOf(const TaskQuestion& question) {
  return static_cast<int64_t>(question.tokens.size() + question.answer.size());
}

int64_t Questionnaire::TokensOf(const TaskSet& set) {
  auto tokens = static_cast<int64_t>(set.context.size());
  for (const TaskQuestion& question : set.questions) tokens += TokensOf(question);
  return tokens;
}

int64_t Questionnaire::CountTokens(const std::stop_token& stop) const {
  int64_t tokens = 0;
  for (const std::string& task : request_.tasks) {
    for (const int64_t length : request_.lengths) {
      TaskScore score;
      score.task = task;
      score.length = length;
      if (const Task& kind = FindTask(task); !kind.asks()) {
        maker_.Make(kind, length, SeedOf(score), 1);
        tokens += NumWindows() * length;
        continue;
      }
      for (; score.samples < request_.samples; ++score.contexts) {
        if (stop.stop_requested()) return tokens;
        const TaskSet set = NextSet(score);
        score.samples += static_cast<int32_t>(set.questions.size());
        tokens += TokensOf(set);
      }
    }
  }
  return tokens;
}

uint64_t Questionnaire::SeedOf(const TaskScore& score) const {
  return request_.seed * 1'000'003U + static_cast<uint64_t>(score.contexts) * 7919U +
         static_cast<uint64_t>(score.length);
}

}  // namespace headscope::eval
