// SPDX-License-Identifier: Apache-2.0
// tokenizer.json (BPE, WordPiece, Unigram), tokenizer.model (SentencePiece, or tokens by rank as Llama 3's) and
// qwen.tiktoken, and tiktoken.model.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"

namespace headscope::model {

struct ModelConfig;

// A text that has at least so many tokens, which are too many.
class TooManyTokens : public UsageError {
 public:
  explicit TooManyTokens(int64_t count)
      : UsageError(Fault{.problem = "the text has at least " + std::to_string(count) + " tokens, which are too many",
                         .remedy = "use a shorter one"}),
        at_least(count) {}
  const int64_t at_least;
};

class Tokenizer {
 public:
  // Throws BadInputError; a normalizer, pre-tokenizer or model that is not known is refused, never ignored.
  // A path that ends in .model names SentencePiece's file or a list of tokens by rank, one in .tiktoken such a list,
  // any other a tokenizer.json. `config`: the model's, which a list needs, since it does not say how words are split.
  static Tokenizer Load(const std::string& path, const ModelConfig* config = nullptr);
  // The same from text; `file` only names the source in messages.
  static Tokenizer Parse(std::string_view text, const std::string& file);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // UTF-8 text (any bytes are taken) to ids; add_special_tokens applies the post-processor (such as a leading <s>).
  // Throws TooManyTokens, as soon as a piece says so by its length alone, when there would be more than `most`: merging
  // a piece of many megabytes takes seconds.
  std::vector<int32_t> Encode(std::string_view text, bool add_special_tokens,
                              int64_t most = std::numeric_limits<int64_t>::max()) const;
  // Whether a token has that id: models pad their embeddings with ids that none has.
  bool Has(int32_t id) const;
  // Bytes of the ids; special tokens are left out unless asked for. An id without a token has none.
  std::string Decode(const std::vector<int32_t>& ids, bool keep_special_tokens = false) const;
  // Bytes of one token (special tokens as their name). Throws std::out_of_range for an unknown id.
  std::string TokenBytes(int32_t id) const;
  int32_t vocabulary_size() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// How many bytes of UTF-8 stand at the front of `text`: all of them, if it is UTF-8.
size_t Utf8Length(std::string_view text);

}  // namespace headscope::model
