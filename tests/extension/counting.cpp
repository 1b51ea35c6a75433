// SPDX-License-Identifier: Apache-2.0
// A task as an extension adds it: numbered lines are spread over a text in order; asks for the line after one of them.
#include <utility>

#include "tasks/random_text.h"
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

constexpr size_t kNumLines = 12;

class CountingTask : public Task {
 public:
  std::string_view name() const override { return "counting"; }
  std::string_view help() const override { return "12 numbered words in order over a text; asks for the next word"; }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    Draft draft;
    std::set<std::string> used;
    std::vector<std::string> words;
    for (size_t i = 0; i < kNumLines; ++i) {
      words.push_back(Fresh(&used, [&] { return Capitals(random, 4); }));
      draft.facts.push_back({text.Encode("Word " + std::to_string(i + 1) + " is " + words.back() + ".\n"), 0});
    }
    for (const size_t i : Choose(random, kNumLines - 1, num_questions)) {
      draft.questions.push_back(
          {text.MakeQuestion("After " + words[i] + " comes", " " + words[i + 1], ".\n"), {i, i + 1}});
    }
    return draft;
  }
};

}  // namespace

const Task& Counting() {
  static const CountingTask task;
  return task;
}

}  // namespace headscope::eval
