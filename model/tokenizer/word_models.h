// SPDX-License-Identifier: Apache-2.0
// The models of tokenizer.json that know whole words: WordPiece, WordLevel and Unigram.
#pragma once

#include "checkpoint/strict_json.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

// `model`: the field of that name. All throw BadInputError.
void ReadWordPiece(const JsonFields& model, TokenizerSpec* spec);
void ReadWordLevel(const JsonFields& model, TokenizerSpec* spec);
void ReadUnigram(const JsonFields& model, TokenizerSpec* spec);

}  // namespace headscope::model
