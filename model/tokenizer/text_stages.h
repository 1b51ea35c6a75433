// SPDX-License-Identifier: Apache-2.0
// The stages of tokenizer.json that see text: normalizer and pre-tokenizer.
#pragma once

#include "checkpoint/strict_json.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

inline constexpr std::string_view kKnownTokenizers =
    "headscope reads BPE tokenizers of the GPT-2, Llama, Mistral and Qwen kinds";

// Each throws BadInputError for what it does not know.
void ReadNormalizer(const JsonFields& root, TokenizerSpec* spec);
// Returns whether the last step is ByteLevel, which means that the model's tokens are written in its alphabet.
bool ReadPreTokenizer(const JsonFields& root, TokenizerSpec* spec);

// Visits a stage's steps: those of a Sequence, listed under `list_key`, or the stage itself. A Sequence in a Sequence
// is refused.
template <typename Visit>
void ForEachStep(const JsonFields& stage, std::string_view list_key, const Visit& visit) {
  if (stage.Text("type") != "Sequence") {
    visit(stage);
    return;
  }
  stage.ForEachObject(list_key, [&](size_t, const JsonFields& step) { visit(step); });
}

}  // namespace headscope::model
