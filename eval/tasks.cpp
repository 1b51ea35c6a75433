#include "eval/tasks.h"

#include <stdexcept>

#include "task_maker.h"

namespace headscope::eval {

const std::vector<std::string>& TaskNames() {
  static const std::vector<std::string> names = {"passkey", "kv", "variables", "repeat", "prose"};
  return names;
}

std::string TaskHelp(std::string_view name) {
  if (name == "passkey") return "17 lines 'The pass key for K is V.' at random places of a text; asks for one";
  if (name == "kv")
    return "128 lines {\"key\": \"K\", \"value\": \"V\"} at random places of a text; asks for one value";
  if (name == "variables")
    return "5 chains VAR A = 12345, VAR B = VAR A, VAR C = VAR B at random places of a text; asks to trace one back";
  if (name == "repeat")
    return "64 random tokens at a random place of a text; shows the first 14 again and asks for the rest";
  if (name == "prose") return "plain text without a question";
  throw std::invalid_argument("--task \"" + std::string(name) +
                              "\": it must be passkey, kv, variables, repeat or prose");
}

TaskPrompt MakeTask(std::string_view name, int64_t length, uint64_t seed, const model::Tokenizer& tokenizer,
                    std::string_view text) {
  const TaskMaker maker(tokenizer, text);
  TaskSet set = maker.Make(name, length, seed, 1);
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

}  // namespace headscope::eval
