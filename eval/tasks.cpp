// SPDX-License-Identifier: Apache-2.0
#include "eval/tasks.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "task_maker.h"
#include "tasks/task_list.h"

namespace headscope::eval {

TaskText::TaskText(const model::Tokenizer& tokenizer) : tokenizer_(tokenizer), line_feed_(Encode("\n").at(0)) {
  for (int32_t id = 0; id < tokenizer_.vocabulary_size(); ++id) {
    const std::string shown = tokenizer_.Decode({id});
    if (!shown.empty() && shown.find('\n') == std::string::npos) plain_.push_back(id);
  }
}

TaskQuestion TaskText::MakeQuestion(const std::string& head, const std::string& answer, const std::string& rest) const {
  const std::vector<int32_t> whole = Encode(head + answer + rest);
  TaskQuestion question;
  question.answer_text = answer;
  size_t bytes = 0;
  for (const int32_t id : whole) {
    const size_t token_begin = bytes;
    bytes += tokenizer_.TokenBytes(id).size();
    if (bytes <= head.size()) {
      question.tokens.push_back(id);
    } else if (token_begin < head.size() + answer.size()) {
      question.answer.push_back(id);
    }
  }
  return question;
}

const std::vector<const Task*>& Tasks() {
#define HEADSCOPE_ADDRESS(name) &name(),
  static const std::vector<const Task*> tasks = {HEADSCOPE_TASKS(HEADSCOPE_ADDRESS)};
#undef HEADSCOPE_ADDRESS
  return tasks;
}

const Task& FindTask(std::string_view name) {
  std::string known;
  for (const Task* task : Tasks()) {
    if (task->name() == name) return *task;
    known += known.empty() ? "" : task == Tasks().back() ? " or " : ", ";
    known += task->name();
  }
  std::string value = "\"";
  value.append(name).append("\"");
  throw UsageError({.field = "task", .value = value, .problem = "it must be " + known});
}

const std::vector<std::string>& TaskNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Task* task : Tasks()) all.emplace_back(task->name());
    return all;
  }();
  return names;
}

std::string TaskHelp(std::string_view name) {
  return std::string(FindTask(name).help());
}

std::string TasksWithHelp() {
  std::string all;
  for (const Task* task : Tasks())
    all += (all.empty() ? "" : "; ") + std::string(task->name()) + ", " + std::string(task->help());
  return all;
}

TaskPrompt MakeTask(std::string_view name, int64_t length, uint64_t seed, const model::Tokenizer& tokenizer,
                    std::string_view text) {
  const Task& task = FindTask(name);
  const TaskMaker maker(tokenizer, text);
  TaskSet set = maker.Make(task, length, seed, 1);
  TaskPrompt prompt;
  prompt.tokens = std::move(set.context);
  if (!set.questions.empty()) {
    TaskQuestion& question = set.questions.front();
    prompt.tokens.insert(prompt.tokens.end(), question.tokens.begin(), question.tokens.end());
    prompt.answer = std::move(question.answer);
    prompt.answer_text = std::move(question.answer_text);
    prompt.fact_positions = std::move(question.fact_positions);
  }
  return prompt;
}

float ScoreOfAnswer(std::span<const int32_t> expected, std::span<const int32_t> generated) {
  if (generated.size() < expected.size()) throw std::invalid_argument("fewer tokens than the answer has");
  return std::ranges::equal(expected, generated.first(expected.size())) ? 1.0F : 0.0F;
}

}  // namespace headscope::eval
