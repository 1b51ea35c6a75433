// SPDX-License-Identifier: Apache-2.0
// tokenizer.json as plain data: what it asks for, checked against what headscope can do.
//
// The file describes a pipeline of added tokens, normalizer, pre-tokenizer, model and post-processor. Each stage is
// read by a table of the known kinds; an unknown kind, or a known one with an option that would change the ids, is
// refused by name. Five kinds of model are byte-level BPE (GPT-2, Llama 3, Qwen), BPE over characters with
// tokens for single bytes (Llama 2, Mistral), WordPiece (BERT), WordLevel (whole words alone) and Unigram (T5, XLM-R).
//
// Memory follows what the file holds, never a number in it (docs/design.md, "Files of others").
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_table.h"

namespace headscope::model {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;        // left out of decoded text
  bool normalized = false;     // looked for in the normalized text
  bool as_normalized = false;  // the content is written as it stands there
  bool single_word = false;    // only where no letter stands beside it
  bool lstrip = false;         // takes the white space before it
  bool rstrip = false;         // and after it
};

struct MergeRule {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;
  int32_t rank = -1;  // rules of one rank come in the order of their places; -1: the rule's own place in the list
};

enum class TokenKind : uint8_t { kBytePairs, kWordPiece, kWordLevel, kUnigram };

struct TokenizerSpec {
  TokenKind kind = TokenKind::kBytePairs;
  bool in_slices = false;  // a text is taken apart before all else (text_slices.h)
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  TokenTable tokens;
  std::array<int32_t, 256> byte_ids{};  // the token of each single byte; -1 where there is none
  // BPE over characters: the tokens that are one character, in the order of the characters. Empty for byte-level BPE.
  std::vector<std::pair<uint32_t, int32_t>> character_ids;
  bool over_characters = false;
  bool spelled_in_alphabet = false;  // over characters that stand for bytes: the decoder is ByteLevel
  std::vector<MergeRule> merges;     // in the order of their rank
  bool ignore_merges = false;        // a piece that is a token is that token, whatever the merges say
  // WordPiece, Unigram: the words as they are written, and of Unigram their scores, by id. BPE: the words that a whole
  // piece, or a character with what marks its place, is looked for among.
  TokenTable words;
  std::vector<double> scores;
  bool scores_in_single_precision = false;
  int32_t unknown_id = -1;               // -1: none
  std::string continuing_prefix;         // WordPiece, BPE: of words that continue another
  std::string last_suffix;               // BPE: of words that end a piece
  bool by_bytes = true;                  // BPE: a character without a token is spelled by tokens of its bytes
  bool joins_unknown = false;            // BPE: unknown characters side by side are one token
  size_t longest_word = 0;               // WordPiece: characters; longer ones are unknown
  std::vector<AddedToken> added_tokens;  // in the file's order
  std::vector<int32_t> added_only;       // the ids of those that are not words of the vocabulary as well, sorted
  std::vector<int32_t> template_before;  // ids that the post-processor puts before and after the text
  std::vector<int32_t> template_after;
  bool decoded_apart = false;       // decoded text has a space between tokens: without a decoder, if they hold none
  bool decoded_space_goes = false;  // decoded text loses one space at its front
  bool decoded_end_goes = false;    // and one at its end
};

// `file` only names the source. Throws BadInputError.
TokenizerSpec ParseTokenizerSpec(std::string_view text, const std::string& file);

}  // namespace headscope::model
