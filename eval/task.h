// SPDX-License-Identifier: Apache-2.0
// What a task is: facts that are hidden in a filler text, and questions that need them.
//
// A new task is one file in eval/tasks that defines a subclass of Task and a function that returns it, and one line in
// eval/tasks/task_list.h. The command line, `capture --task`, the window's dialog and `eval` take it from there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "model/tokenizer.h"

namespace headscope::eval {

struct TaskQuestion {
  std::vector<int32_t> tokens;  // of the question, ending where the answer begins
  std::vector<int32_t> answer;
  std::string answer_text;
  std::vector<int64_t> fact_positions;
};

// A piece of the context, put at the start of a random line.
struct Fact {
  std::vector<int32_t> tokens;
  size_t ordered_group = SIZE_MAX;  // facts of one group keep their order
};

struct DraftQuestion {
  TaskQuestion question;
  std::vector<size_t> facts;  // that the answer needs, by index
};

struct Draft {
  std::vector<Fact> facts;
  std::vector<DraftQuestion> questions;
};

// How text becomes tokens, and which tokens make random ones.
class TaskText {
 public:
  explicit TaskText(const model::Tokenizer& tokenizer);  // which outlives it

  const model::Tokenizer& tokenizer() const { return tokenizer_; }
  std::vector<int32_t> Encode(std::string_view text) const { return tokenizer_.Encode(text, false); }
  // The tokens of head + answer + rest as one text, cut before the answer and after it.
  TaskQuestion MakeQuestion(const std::string& head, const std::string& answer, const std::string& rest) const;
  const std::vector<int32_t>& plain() const { return plain_; }  // not special, no line feed
  int32_t line_feed() const { return line_feed_; }

 private:
  const model::Tokenizer& tokenizer_;
  std::vector<int32_t> plain_;
  int32_t line_feed_ = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual std::string_view name() const = 0;  // as typed
  virtual std::string_view help() const = 0;  // one line
  // False: plain text, scored by the model's loss on it.
  virtual bool asks() const { return true; }
  // At most `num_questions` questions; a task has no more of them than it has facts.
  virtual Draft Make(const TaskText& text, Random* random, size_t num_questions) const = 0;
};

// Every task, in the order in which lists show them.
const std::vector<const Task*>& Tasks();
// Throws UsageError, which names those that there are.
const Task& FindTask(std::string_view name);

}  // namespace headscope::eval
