// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/word_models.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>

#include "tokenizer/seeded_hash.h"
#include "tokenizer/text_stages.h"
#include "tokenizer/token_names.h"

namespace headscope::model {
namespace {

// Names of added tokens stand in the vocabulary too, and are no words there.
std::unordered_set<std::string_view, SeededHash> NamesOf(const std::vector<AddedToken>& tokens) {
  std::unordered_set<std::string_view, SeededHash> names;
  for (const AddedToken& token : tokens) names.insert(token.content);
  return names;
}

void CheckLength(const JsonFields& model, std::string_view text) {
  if (text.size() > kLongestWord)
    model.RefuseField("vocab", Quoted(text) + " has more than 512 bytes, which no token needs", kKnownTokenizers);
}

// The vocabulary of a model whose ids stand beside the words: the words, and by `put(id, text)` what they are when they
// are decoded.
template <typename Put>
void ReadWords(const JsonFields& model, const std::string& unknown, TokenizerSpec* spec, const Put& put) {
  const std::optional<JsonValue> vocab = model.Find("vocab");
  if (!vocab || !vocab->IsObject()) model.RefuseField("vocab", "must be an object", "correct it");
  const int64_t most = MostId(vocab->size() + spec->added_tokens.size());
  vocab->ForEachMember([&](std::string_view text, const JsonValue& value) {
    const std::optional<int64_t> number = value.IntegerIn(0, most);
    if (!number) {
      model.RefuseField("vocab",
                        "the id of " + Quoted(text) + " must be a whole number from 0 to " + std::to_string(most),
                        "correct it");
    }
    CheckLength(model, text);
    const auto id = static_cast<int32_t>(*number);
    spec->words.Add(id, text, false);
    if (text == unknown) spec->unknown_id = id;
    put(id, text);
  });
  if (const std::optional<int32_t> twice = spec->words.Sort())
    model.RefuseField("vocab", "gives the id " + std::to_string(*twice) + " to two words", "correct one of them");
  if (spec->unknown_id < 0) model.RefuseField("unk_token", "is not a word of the vocabulary", "correct it");
}

}  // namespace

void ReadWordPiece(const JsonFields& model, TokenizerSpec* spec) {
  constexpr int64_t kLongestInput = 1000;
  spec->kind = TokenKind::kWordPiece;
  spec->byte_ids.fill(-1);
  spec->continuing_prefix = model.Text("continuing_subword_prefix", "##");
  spec->longest_word = static_cast<size_t>(model.Integer("max_input_chars_per_word", 1, kLongestInput, 100));
  const auto added = NamesOf(spec->added_tokens);
  ReadWords(model, model.Text("unk_token", "[UNK]"), spec, [&](int32_t id, std::string_view text) {
    const std::string_view prefix = spec->continuing_prefix;
    if (added.contains(text))
      spec->tokens.Add(id, text, false);
    else if (!prefix.empty() && text.size() > prefix.size() && text.starts_with(prefix))
      spec->tokens.Add(id, text.substr(prefix.size()), false);
    else
      spec->tokens.Add(id, std::string(1, ' ').append(text), false);
  });
}

// Without a decoder, which no other model does without, words are put together with spaces between.
void ReadWordLevel(const JsonFields& model, TokenizerSpec* spec) {
  spec->kind = TokenKind::kWordLevel;
  spec->byte_ids.fill(-1);
  spec->decoded_space_goes = true;
  ReadWords(model, model.Text("unk_token", "<unk>"), spec,
            [&](int32_t id, std::string_view text) { spec->tokens.Add(id, std::string(1, ' ').append(text), false); });
}

void ReadUnigram(const JsonFields& model, TokenizerSpec* spec) {
  spec->kind = TokenKind::kUnigram;
  spec->byte_ids.fill(-1);
  const JsonValue vocab = model.Array("vocab");
  if (vocab.size() == 0) model.RefuseField("vocab", "is empty", kKnownTokenizers);
  const bool by_bytes = model.Boolean("byte_fallback", false);
  spec->scores.reserve(vocab.size());
  vocab.ForEachElement([&](const JsonValue& entry) {
    const auto id = static_cast<int32_t>(spec->scores.size());
    std::optional<std::string> text;
    std::optional<double> score;
    if (entry.IsArray() && entry.size() == 2) {
      entry.ForEachElement([&](const JsonValue& part) {
        if (!text && part.IsString())
          text = std::string(part.Text());
        else if (text && part.IsNumber())
          score = part.Number();
      });
    }
    if (!text || !score) {
      model.RefuseField("vocab[" + std::to_string(id) + "]", "must be a text and its score", "correct it");
    }
    CheckLength(model, *text);
    spec->words.Add(id, *text, false);
    spec->scores.push_back(*score);
    const int byte = ByteOfName(*text);
    if (by_bytes && byte >= 0) spec->byte_ids[static_cast<size_t>(byte)] = id;
    spec->tokens.Add(id, BytesOfCharacters(*text), false);
  });
  spec->words.Sort();
  if (!model.IsNull("unk_id") && model.Has("unk_id"))
    spec->unknown_id = static_cast<int32_t>(model.Integer("unk_id", 0, static_cast<int64_t>(spec->scores.size()) - 1));
  const bool all = std::all_of(spec->byte_ids.begin(), spec->byte_ids.end(), [](int32_t id) { return id >= 0; });
  if (by_bytes && !all)
    model.RefuseField("byte_fallback", "is true, but the vocabulary lacks a token for some byte", kKnownTokenizers);
}

}  // namespace headscope::model
