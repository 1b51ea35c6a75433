// SPDX-License-Identifier: Apache-2.0
// The stages of tokenizer.json that see text: normalizer and pre-tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/strict_json.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

inline constexpr std::string_view kKnownTokenizers =
    "headscope reads tokenizers of BPE (as GPT-2's, Llama's, Mistral's and Qwen's), WordPiece, WordLevel and "
    "Unigram; a model with any other is recorded from its token ids, or with headscope.record of the Python package";

// Splits that files of another form than tokenizer.json leave to the program that reads them.
enum class PublishedSplit : uint8_t {
  kLlama3,  // digits in groups of three; also GLM 4's
  kQwen,    // single digits
  kKimi     // as o200k, with Han characters apart from other letters
};
PreTokenizerStep SplitOf(PublishedSplit split);

// Each throws BadInputError for what it does not know.
void ReadNormalizer(const JsonFields& root, TokenizerSpec* spec);
// Returns whether the last step is ByteLevel, which means that the model's tokens are written in its alphabet.
bool ReadPreTokenizer(const JsonFields& root, TokenizerSpec* spec);

// Sequences within Sequences that are followed; published files have one at most.
inline constexpr int kMaxSequenceDepth = 8;

// Visits a stage's steps in their order: those of a Sequence, listed under `list_key`, and of Sequences among them, or
// the stage itself.
template <typename Visit>
void ForEachStep(const JsonFields& stage, std::string_view list_key, const Visit& visit, int depth = 0) {
  if (stage.Text("type") != "Sequence") {
    visit(stage);
    return;
  }
  if (depth == kMaxSequenceDepth) {
    stage.RefuseField("type", "is a Sequence within " + std::to_string(depth) + " others",
                      "write their steps as one list");
  }
  stage.ForEachObject(list_key, [&](size_t, const JsonFields& step) { ForEachStep(step, list_key, visit, depth + 1); });
}

}  // namespace headscope::model
