// SPDX-License-Identifier: Apache-2.0
// After SparQ's text repetition (arXiv 2312.04985), on words that nobody can guess.
#include <utility>

#include "tasks/random_text.h"
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

class RepeatTextTask : public Task {
 public:
  std::string_view name() const override { return "repeat-text"; }
  std::string_view help() const override {
    return "a line of 36 made-up words at a random place in a text; shows the first 12 again and asks for the rest";
  }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    constexpr size_t kShown = 12, kAsked = 24;
    Draft draft;
    for (size_t i = 0; i < num_questions; ++i) {
      std::string shown, asked;
      for (size_t word = 0; word < kShown; ++word)
        shown.append(word == 0 ? "" : " ").append(Word(random, 2 + word % 2));
      for (size_t word = 0; word < kAsked; ++word) asked.append(" ").append(Word(random, 2 + word % 2));
      draft.facts.push_back({text.Encode(shown + asked + ".\n")});
      draft.questions.push_back({text.MakeQuestion(shown, asked, ".\n"), {i}});
    }
    return draft;
  }
};

}  // namespace

const Task& RepeatText() {
  static const RepeatTextTask task;
  return task;
}

}  // namespace headscope::eval
