// SPDX-License-Identifier: Apache-2.0
// tokenizer.model, the file of the SentencePiece library: BPE by scores or Unigram, in protobuf's encoding.
//
// Source: sentencepiece_model.proto of that library. What it writes differently from tokenizer.json: merges follow from
// the pieces' scores, so every way to make a piece of two others has the piece's rank.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

// Which marks go before and after a prompt; tokenizer.model itself does not say.
struct SentencePieceEnds {
  bool begin = true;  // the file's own
  bool end = false;
  // ChatGLM 2 and 3: [gMASK] and sop go before the text instead, names that stand behind the file's pieces.
  bool chatglm = false;
};

// Of a tokenizer_config.json. Throws BadInputError; `file` only names the source.
SentencePieceEnds ParseSentencePieceEnds(std::string_view text, const std::string& file);
// `file` only names the source. Throws BadInputError for a damaged file, and naming what is not read: marks behind
// words, spaces that stay spaces.
TokenizerSpec ParseSentencePiece(std::string_view bytes, const std::string& file, const SentencePieceEnds& ends);

}  // namespace headscope::model
