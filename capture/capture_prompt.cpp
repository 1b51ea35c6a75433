// SPDX-License-Identifier: Apache-2.0
#include "capture_prompt.h"

#include <filesystem>
#include <utility>

#include "base/errors.h"
#include "capture/prompt_file.h"
#include "eval/prose_file.h"
#include "eval/tasks.h"
#include "model/input_file.h"
#include "one_capture.h"

namespace headscope::capture {
namespace {

// `count`: how many tokens the prompt has, as text.
[[noreturn]] void RefuseLongPrompt(const CaptureRequest& request, const std::string& count,
                                   const model::ModelConfig& config) {
  const std::string decoded =
      request.decode_tokens == 0 ? "" : " and decoding adds " + std::to_string(request.decode_tokens);
  Fault fault{
      .file = request.prompt_file.value_or(""),
      .problem = "the prompt has " + count + " tokens" + decoded + ", but the model has " + PositionsText(config),
      .remedy = std::string("use a shorter prompt") + (request.decode_tokens == 0 ? "" : " or decode fewer tokens")};
  if (request.task) {
    fault.field = "length";
    fault.value = std::to_string(request.task_length);
    fault.remedy = "choose a smaller number or decode fewer tokens";  // without those the length itself is refused
  }
  throw UsageError(fault);
}

}  // namespace

Prompt ReadPrompt(const CaptureRequest& request, const model::Tokenizer* tokenizer, const model::ModelConfig& config) {
  const int given = static_cast<int>(request.text.has_value()) + static_cast<int>(request.prompt_file.has_value()) +
                    static_cast<int>(request.task.has_value()) + static_cast<int>(!request.tokens.empty());
  if (given != 1)
    throw UsageError({.problem = "a capture needs exactly one of a text, a prompt file, tokens and a task",
                      .remedy = "give one of them"});
  if (!request.tokens.empty()) {
    for (const int32_t id : request.tokens) {
      if (id >= 0 && id < config.vocabulary_size) continue;
      throw UsageError({.field = "tokens",
                        .value = std::to_string(id),
                        .problem = "the model's ids are 0 to " + std::to_string(config.vocabulary_size - 1),
                        .remedy = "give ids of its own tokenizer"});
    }
    return {request.tokens, "tokens", "", {}};
  }
  if (request.task) {
    const eval::TaskPrompt task = eval::MakeTask(*request.task, request.task_length, request.task_seed, *tokenizer,
                                                 eval::ReadProse(request.prose_path));
    return {task.tokens,
            "task " + *request.task + " length " + std::to_string(request.task_length) + " seed " +
                std::to_string(request.task_seed),
            task.answer_text, task.answer};
  }
  const std::string text = request.text ? *request.text : ReadPromptFile(*request.prompt_file);
  const std::string source =
      request.text ? "text" : "prompt " + std::filesystem::path(*request.prompt_file).filename().string();
  if (text.empty())
    model::Refuse(request.text ? kPromptItself : *request.prompt_file, "", "is empty", "give at least one character");
  if (const size_t valid = model::Utf8Length(text); valid < text.size()) {
    model::Refuse(kPromptItself, "", "is not UTF-8 at byte " + std::to_string(valid),
                  "give it in a locale of UTF-8, or as a file");
  }
  try {
    Prompt prompt = {tokenizer->Encode(text, /*add_special_tokens=*/true, config.max_positions), source, "", {}};
    if (prompt.tokens.empty())
      throw BadInputError({.problem = "has no token by the model's tokenizer", .remedy = "give another text"});
    return prompt;
  } catch (const model::TooManyTokens& too_many) {
    RefuseLongPrompt(request, "at least " + std::to_string(too_many.at_least), config);
  } catch (BadInputError& error) {
    error.SetFile(request.text ? kPromptItself : *request.prompt_file);
    throw;
  }
}

void RequirePositionsFor(const CaptureRequest& request, const Prompt& prompt, const model::ModelConfig& config) {
  const int64_t needed = static_cast<int64_t>(prompt.tokens.size()) + request.decode_tokens;
  if (needed <= config.max_positions) return;
  RefuseLongPrompt(request, std::to_string(prompt.tokens.size()), config);
}

}  // namespace headscope::capture
