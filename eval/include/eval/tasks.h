// SPDX-License-Identifier: Apache-2.0
// Prompts with a known answer, made to a length: pass key, key-value, variable tracking, repetition, prose.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer.h"

namespace headscope::eval {

struct TaskPrompt {
  std::vector<int32_t> tokens;  // with the leading special token; ends where the answer begins
  std::vector<int32_t> answer;  // expected tokens
  std::string answer_text;
  std::vector<int64_t> fact_positions;  // first token of every fact that the answer needs
};

// Every task, in the order of eval/tasks/task_list.h. The first is the one that is recorded where nobody chooses one.
const std::vector<std::string>& TaskNames();
std::string TaskHelp(std::string_view name);
// All of them with their help, for one: "kv, 128 lines ..; passkey, ..".
std::string TasksWithHelp();
// Exactly `length` tokens (prompt and answer together), the same for the same seed on every machine. `text`: the filler
// prose, from data/prompts. Throws UsageError for an unknown name or a length that is too short, naming the
// least.
TaskPrompt MakeTask(std::string_view name, int64_t length, uint64_t seed, const model::Tokenizer& tokenizer,
                    std::string_view text);

// The rule of the tasks, for a model's own answer: 1 where `generated` begins with the expected tokens, each of them,
// else 0. `generated` has at least as many.
float ScoreOfAnswer(std::span<const int32_t> expected, std::span<const int32_t> generated);

}  // namespace headscope::eval
