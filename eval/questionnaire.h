// SPDX-License-Identifier: Apache-2.0
// The contexts and questions of an evaluation, all of them known before the first is read.
#pragma once

#include <cstdint>
#include <stop_token>

#include "eval/evaluate.h"
#include "model/tokenizer.h"
#include "task_maker.h"

namespace headscope::eval {

class Questionnaire {
 public:
  // Both outlive the questionnaire. Throws what ReadProse and TaskMaker throw.
  Questionnaire(const EvaluateRequest& request, const model::Tokenizer& tokenizer);

  // The next context of the score's task and length, after those that the score counts.
  TaskSet NextSet(const TaskScore& score) const;
  TaskMaker::ProseWindow NextWindow(const TaskScore& score) const;  // of a task that asks nothing
  int32_t NumWindows() const;

  // Tokens that the model reads and generates for one question, asked once; for a context and all of its questions.
  static int64_t TokensOf(const TaskQuestion& question);
  static int64_t TokensOf(const TaskSet& set);
  // Of the whole request; fewer when cancelled. Makes every context once, which takes milliseconds where the model
  // takes seconds, so that a length that is too short for any of them is refused here: throws UsageError.
  int64_t CountTokens(const std::stop_token& stop) const;

 private:
  // Different for every context, the same on every machine.
  uint64_t SeedOf(const TaskScore& score) const;

  const EvaluateRequest& request_;
  TaskMaker maker_;
};

}  // namespace headscope::eval
