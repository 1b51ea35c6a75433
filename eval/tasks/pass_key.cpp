// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tasks/random_text.h"
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

constexpr size_t kNumNeedles = 17;  // one asked for, 16 distractors

class PassKeyTask : public Task {
 public:
  std::string_view name() const override { return "passkey"; }
  std::string_view help() const override {
    return "17 lines 'The pass key for K is V.' at random places in a text; asks for one";
  }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    Draft draft;
    std::set<std::string> used;
    std::vector<std::pair<std::string, std::string>> rows;
    for (size_t i = 0; i < kNumNeedles; ++i) {
      const std::string key = Fresh(&used, [&] { return Digits(random, 5); });
      rows.emplace_back(key, Digits(random, 5));
      draft.facts.push_back({text.Encode("The pass key for " + key + " is " + rows.back().second + ".\n")});
    }
    for (const size_t i : Choose(random, kNumNeedles, num_questions)) {
      draft.questions.push_back(
          {text.MakeQuestion("The pass key for " + rows[i].first + " is", " " + rows[i].second, ".\n"), {i}});
    }
    return draft;
  }
};

}  // namespace

const Task& PassKey() {
  static const PassKeyTask task;
  return task;
}

}  // namespace headscope::eval
