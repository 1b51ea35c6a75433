// tokenizer.json as plain data: what it asks for, checked against what headscope can do.
//
// The file describes a pipeline of added tokens, normalizer, pre-tokenizer, model and post-processor. Each stage is
// read by a table of the known kinds; an unknown kind, or a known one with an option that would change the ids, is
// refused by name. Families that are not here yet (SentencePiece- style Metaspace with byte fallback, NFC
// normalisation, WordPiece) become new rows of those tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::capture {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;     // left out of decoded text
  bool normalized = false;  // looked for after the others
};

struct MergeRule {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;
};

struct TokenizerSpec {
  std::string split_pattern;             // PCRE2
  std::vector<std::string> token_bytes;  // by id; empty where the id is not used
  std::vector<MergeRule> merges;         // in the order of their rank
  bool ignore_merges = false;            // a piece that is a token is that token, whatever the merges say
  std::vector<AddedToken> added_tokens;  // in the file's order
  std::vector<int32_t> template_before;  // ids that the post-processor puts before and after the text
  std::vector<int32_t> template_after;
};

// `file` only names the source. Throws BadInputError.
TokenizerSpec ParseTokenizerSpec(std::string_view text, const std::string& file);

}  // namespace headscope::capture
