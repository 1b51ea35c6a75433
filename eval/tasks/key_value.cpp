// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tasks/random_text.h"
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

constexpr size_t kNumRecords = 128;

class KeyValueTask : public Task {
 public:
  std::string_view name() const override { return "kv"; }
  std::string_view help() const override {
    return "128 lines {\"key\": \"K\", \"value\": \"V\"} at random places in a text; asks for one value";
  }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    Draft draft;
    std::set<std::string> used;
    std::vector<std::pair<std::string, std::string>> rows;
    for (size_t i = 0; i < kNumRecords; ++i) {
      const std::string key = Fresh(&used, [&] { return Digits(random, 5); });
      rows.emplace_back(key, Digits(random, 5));
      draft.facts.push_back({text.Encode("{\"key\": \"" + key + "\", \"value\": \"" + rows.back().second + "\"}\n")});
    }
    for (const size_t i : Choose(random, kNumRecords, num_questions)) {
      draft.questions.push_back(
          {text.MakeQuestion("{\"get\": \"" + rows[i].first + "\", \"value\": \"", rows[i].second, "\"}\n"), {i}});
    }
    return draft;
  }
};

}  // namespace

const Task& KeyValue() {
  static const KeyValueTask task;
  return task;
}

}  // namespace headscope::eval
