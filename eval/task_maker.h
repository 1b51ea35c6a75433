// SPDX-License-Identifier: Apache-2.0
// Makes task prompts in number: the filler text is tokenized once, and one context may serve several questions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "eval/tasks.h"
#include "task.h"

namespace headscope::eval {

// A context and questions about it. Each question is asked after the context alone, as if it were the only one.
struct TaskSet {
  std::vector<int32_t> context;
  std::vector<TaskQuestion> questions;
};

class TaskMaker {
 public:
  // Throws UsageError when the text has no line. `tokenizer` outlives the maker.
  TaskMaker(const model::Tokenizer& tokenizer, std::string_view text);

  // Context and the longest of the questions with its answer make `length` tokens. At most `num_questions` questions: a
  // task has no more of them than it has facts. Throws UsageError for a length that is too short.
  TaskSet Make(const Task& task, int64_t length, uint64_t seed, int32_t num_questions) const;
  // `length` tokens of the filler, with the leading special token, from a random line on; the filler's other tokens
  // (none when the window is longer).
  struct ProseWindow {
    std::vector<int32_t> tokens;
    std::vector<int32_t> rest;
  };
  ProseWindow WindowAndRest(int64_t length, uint64_t seed) const;

 private:
  TaskSet Place(const Draft& draft, const Task& task, int64_t length, Random* random) const;

  TaskText text_;
  std::vector<int32_t> begin_;       // what the tokenizer puts before every text
  std::vector<int32_t> prose_;       // read as a ring
  std::vector<size_t> line_starts_;  // indices into prose_
};

}  // namespace headscope::eval
