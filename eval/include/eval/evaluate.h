// SPDX-License-Identifier: Apache-2.0
// Scores a model on the tasks, in headscope's own generation: does it find what its context holds?
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/progress.h"
#include "eval/tasks.h"
#include "model/attention_backend.h"
#include "model/model_session.h"

namespace headscope::eval {

struct EvaluateRequest {
  std::string model_dir;
  std::vector<std::string> tasks = TaskNames();
  std::vector<int64_t> lengths = {4096, 8192, 16384};  // tokens, answer included
  int32_t samples = 40;  // questions per task and length; prose reads samples / questions_per_context windows
  // Questions about one context, each asked right after the context as if it were the only one: the context, which
  // takes nearly all of the time, is read once for all of them. 1 gives every question a context of its own. A task has
  // at most as many as facts (passkey 17, variables 5).
  int32_t questions_per_context = 5;
  uint64_t seed = 1;
  std::string prose_path;  // filler text, such as data/prompts/prose.txt
  model::SessionOptions session;
  // What computes the model's attention; null: dense attention. It outlives the evaluation.
  model::AttentionBackend* attention = nullptr;
};

struct TaskScore {
  std::string task;
  int64_t length = 0;
  bool asks = true;  // false: a text without questions, scored by its loss
  int32_t samples = 0;
  int32_t contexts = 0;
  double exact = 0;  // share of samples whose whole answer was generated greedily, token for token
  // Share of answer tokens that the model prefers after the right answer up to there; with methods, in steps.
  double per_token = 0;
  double matched_characters = 0;  // mean over samples: of the answer, before the first that was generated otherwise
  // Without questions only: mean loss, the same by characters of the text, and the loss of an interpolated trigram
  // model (absolute discounting) which counted the same text outside the window. Where attention has steps of its own,
  // of the tokens that steps predict: the last sixteenth of a window is read in steps behind the rest as a prompt.
  double nats_per_token = 0;
  double bits_per_character = 0;
  double trigram_nats_per_token = 0;
  double seconds = 0;
};

// A question as it was answered.
struct Answer {
  std::string task;
  int64_t length = 0;
  std::string context, question, expected, generated;  // text; the question follows right behind the context
  int64_t answer_tokens = 0;                           // as many were generated
  bool right = false;
};

// One score per task and length, in the order of the request; each also goes to `on_score` at once, and every answer to
// `on_answer`, unless that is empty. What the request,
// the folder's config.json and tokenizer.json and the tasks' own limits refuse is refused before a weight is read.
// Progress is of the whole run, in tokens read and answered. Once `stop` is requested, returns the scores that are
// complete, within the part of a layer that the model is in. Throws BadInputError, DeviceError, UsageError, and what
// `on_score` and `on_answer` throw.
std::vector<TaskScore> Evaluate(const EvaluateRequest& request, const std::function<void(const TaskScore&)>& on_score,
                                const ProgressFunction& progress, const std::stop_token& stop,
                                const std::function<void(const Answer&)>& on_answer = {});

}  // namespace headscope::eval
