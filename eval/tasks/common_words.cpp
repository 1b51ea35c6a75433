// SPDX-License-Identifier: Apache-2.0
// After RULER's common words (arXiv 2404.06654): several words that are more often there than the others.
#include <algorithm>
#include <utility>

#include "tasks/random_text.h"
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

class CommonWordsTask : public Task {
 public:
  std::string_view name() const override { return "common-words"; }
  std::string_view help() const override {
    return "4 words 10 times each and 20 words twice, at random places in a text; asks for the 4 in alphabetical order";
  }
  // A text has one list of common words, and so one question.
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    constexpr size_t kCommon = 4, kOthers = 20, kTimesOfCommon = 10, kTimes = 2;
    Draft draft;
    std::set<std::string> used;
    std::vector<std::string> common;
    std::vector<size_t> facts;
    for (size_t word = 0; word < kCommon + kOthers; ++word) {
      const std::string drawn = Fresh(&used, [&] { return Word(random, 3); });
      const bool is_common = word < kCommon;
      if (is_common) common.push_back(drawn);
      for (size_t i = 0; i < (is_common ? kTimesOfCommon : kTimes); ++i) {
        if (is_common) facts.push_back(draft.facts.size());
        draft.facts.push_back({text.Encode("Word of the list: " + drawn + "\n")});
      }
    }
    if (num_questions == 0) return draft;
    std::sort(common.begin(), common.end());
    std::string answer;
    for (const std::string& word : common) answer += (answer.empty() ? " " : ", ") + word;
    draft.questions.push_back(
        {text.MakeQuestion("The 4 words that appear most often in the list are:", answer, "\n"), std::move(facts)});
    return draft;
  }
};

}  // namespace

const Task& CommonWords() {
  static const CommonWordsTask task;
  return task;
}

}  // namespace headscope::eval
