// SPDX-License-Identifier: Apache-2.0
// After RULER's frequent words (arXiv 2404.06654): the answer lies in no single place.
#include <utility>

#include "tasks/random_text.h"
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

class FrequentWordTask : public Task {
 public:
  std::string_view name() const override { return "frequent-word"; }
  std::string_view help() const override {
    return "6 coded words, one of them 12 times and the others 4 times, at random places in a text; asks for that one";
  }
  // A text has one most frequent word, and so one question.
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    constexpr size_t kNumWords = 6, kTimes = 4, kTimesOfAnswer = 12;
    Draft draft;
    std::set<std::string> used;
    std::string answer;
    std::vector<size_t> facts;
    for (size_t word = 0; word < kNumWords; ++word) {
      const std::string coded = Fresh(&used, [&] { return Capitals(random, 5); });
      if (word == 0) answer = coded;
      for (size_t i = 0; i < (word == 0 ? kTimesOfAnswer : kTimes); ++i) {
        if (word == 0) facts.push_back(draft.facts.size());
        draft.facts.push_back({text.Encode("Coded word: " + coded + "\n")});
      }
    }
    if (num_questions > 0) {
      draft.questions.push_back(
          {text.MakeQuestion("The coded word that appears most often is: ", answer, "\n"), std::move(facts)});
    }
    return draft;
  }
};

}  // namespace

const Task& FrequentWord() {
  static const FrequentWordTask task;
  return task;
}

}  // namespace headscope::eval
