// SPDX-License-Identifier: Apache-2.0
// Tasks on the same kind of facts, after RULER (arXiv 2404.06654): the value of the only key, that of one among many
// keys, all values of one key, and the values of several keys at once.
#include <utility>

#include "tasks/random_text.h"
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

constexpr size_t kAsked = 4;  // values, or keys, of a question

std::string Fact(const std::string& key, const std::string& value) {
  return "One of the special magic numbers for " + key + " is: " + value + ".\n";
}

// "a, b, c and d"
std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

std::string Joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text;
}

// The number of one key; the others are there to be told from it.
Draft OneNumber(const TaskText& text, Random* random, size_t num_keys, size_t num_questions) {
  Draft draft;
  std::set<std::string> used_keys, used_values;
  std::vector<std::string> keys, values;
  for (size_t key = 0; key < num_keys; ++key) {
    keys.push_back(Fresh(&used_keys, [&] { return Capitals(random, 4); }));
    values.push_back(Fresh(&used_values, [&] { return Digits(random, 5); }));
    draft.facts.push_back({text.Encode(Fact(keys.back(), values.back()))});
  }
  for (const size_t key : Choose(random, num_keys, num_questions)) {
    draft.questions.push_back(
        {text.MakeQuestion("The special magic number for " + keys[key] + " is: ", values[key], ".\n"), {key}});
  }
  return draft;
}

class OneKeyTask : public Task {
 public:
  std::string_view name() const override { return "one-key"; }
  std::string_view help() const override {
    return "one key with a magic number at a random place in a text; asks for it";
  }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    return OneNumber(text, random, 1, num_questions);
  }
};

class OneOfManyKeysTask : public Task {
 public:
  std::string_view name() const override { return "one-of-many-keys"; }
  std::string_view help() const override {
    return "24 keys with a magic number each, at random places in a text; asks for the number of one";
  }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    constexpr size_t kNumKeys = 24;
    return OneNumber(text, random, kNumKeys, num_questions);
  }
};

class ManyValuesTask : public Task {
 public:
  std::string_view name() const override { return "many-values"; }
  std::string_view help() const override {
    return "6 keys with 4 magic numbers each at random places in a text; asks for all numbers of one key";
  }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    constexpr size_t kNumKeys = 6;
    Draft draft;
    std::set<std::string> used_keys, used_values;
    std::vector<std::string> keys;
    std::vector<std::vector<std::string>> values(kNumKeys);
    for (size_t key = 0; key < kNumKeys; ++key) {
      keys.push_back(Fresh(&used_keys, [&] { return Capitals(random, 4); }));
      for (size_t i = 0; i < kAsked; ++i) {
        values[key].push_back(Fresh(&used_values, [&] { return Digits(random, 5); }));
        draft.facts.push_back({text.Encode(Fact(keys.back(), values[key].back())), key});
      }
    }
    for (const size_t key : Choose(random, kNumKeys, num_questions)) {
      DraftQuestion question{
          text.MakeQuestion("All special magic numbers for " + keys[key] + " are: ", Joined(values[key]), ".\n"), {}};
      for (size_t i = 0; i < kAsked; ++i) question.facts.push_back(key * kAsked + i);
      draft.questions.push_back(std::move(question));
    }
    return draft;
  }
};

class ManyKeysTask : public Task {
 public:
  std::string_view name() const override { return "many-keys"; }
  std::string_view help() const override {
    return "24 keys with a magic number each at random places in a text; asks for the numbers of 4 keys at once";
  }
  Draft Make(const TaskText& text, Random* random, size_t num_questions) const override {
    constexpr size_t kNumKeys = 24;
    Draft draft;
    std::set<std::string> used_keys, used_values;
    std::vector<std::string> keys, values;
    for (size_t key = 0; key < kNumKeys; ++key) {
      keys.push_back(Fresh(&used_keys, [&] { return Capitals(random, 4); }));
      values.push_back(Fresh(&used_values, [&] { return Digits(random, 5); }));
      draft.facts.push_back({text.Encode(Fact(keys.back(), values.back()))});
    }
    const std::vector<size_t> order = Choose(random, kNumKeys, kNumKeys);
    for (size_t first = 0; first + kAsked <= kNumKeys && draft.questions.size() < num_questions; first += kAsked) {
      std::vector<std::string> asked, answers;
      std::vector<size_t> facts;
      for (size_t i = first; i < first + kAsked; ++i) {
        asked.push_back(keys[order[i]]);
        answers.push_back(values[order[i]]);
        facts.push_back(order[i]);
      }
      draft.questions.push_back({text.MakeQuestion("The special magic numbers for " + Listed(asked) + " are, in turn: ",
                                                   Joined(answers), ".\n"),
                                 std::move(facts)});
    }
    return draft;
  }
};

}  // namespace

const Task& OneKey() {
  static const OneKeyTask task;
  return task;
}

const Task& OneOfManyKeys() {
  static const OneOfManyKeysTask task;
  return task;
}

const Task& ManyValues() {
  static const ManyValuesTask task;
  return task;
}

const Task& ManyKeys() {
  static const ManyKeysTask task;
  return task;
}

}  // namespace headscope::eval
