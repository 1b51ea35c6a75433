// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tasks/random_text.h"
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

constexpr size_t kNumChains = 5;
constexpr size_t kNamesPerChain = 3;  // two hops

class VariablesTask : public Task {
 public:
  std::string_view name() const override { return "variables"; }
  std::string_view help() const override {
    return "5 chains VAR A = 12345, VAR B = VAR A, VAR C = VAR B at random places in a text; asks to trace one back";
  }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    Draft draft;
    std::set<std::string> used_names;
    std::set<std::string> used_values;
    std::vector<std::vector<std::string>> chains;
    std::vector<std::string> values;
    for (size_t chain = 0; chain < kNumChains; ++chain) {
      std::vector<std::string> names;
      for (size_t i = 0; i < kNamesPerChain; ++i)
        names.push_back(Fresh(&used_names, [&] { return Capitals(random, 3); }));
      values.push_back(Fresh(&used_values, [&] { return Digits(random, 5); }));
      draft.facts.push_back({text.Encode("VAR " + names[0] + " = " + values.back() + "\n"), chain});
      for (size_t i = 1; i < names.size(); ++i)
        draft.facts.push_back({text.Encode("VAR " + names[i] + " = VAR " + names[i - 1] + "\n"), chain});
      chains.push_back(std::move(names));
    }
    for (const size_t chain : Choose(random, kNumChains, num_questions)) {
      const std::vector<std::string>& names = chains[chain];
      std::string answer;
      for (size_t i = names.size() - 1; i-- > 0;) answer += " = VAR " + names[i];
      DraftQuestion question{text.MakeQuestion("Trace: VAR " + names.back(), answer + " = " + values[chain], "\n"), {}};
      for (size_t i = 0; i < names.size(); ++i) question.facts.push_back(chain * kNamesPerChain + i);
      draft.questions.push_back(std::move(question));
    }
    return draft;
  }
};

}  // namespace

const Task& Variables() {
  static const VariablesTask task;
  return task;
}

}  // namespace headscope::eval
