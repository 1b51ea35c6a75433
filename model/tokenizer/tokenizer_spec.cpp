// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenizer_spec.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "checkpoint/strict_json.h"
#include "model/tokenizer.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/seeded_hash.h"
#include "tokenizer/text_stages.h"
#include "tokenizer/token_names.h"
#include "tokenizer/unicode_text.h"
#include "tokenizer/word_models.h"

namespace headscope::model {
namespace {

constexpr int64_t kMaxId = (1 << 24) - 1;
constexpr size_t kMaxTemplateIds = 4096;  // real templates have a handful
constexpr size_t kMaxAddedTokens = 1 << 20;

// By the text that stands in the file; views into the file's tree.
using Vocabulary = std::unordered_map<std::string_view, int32_t, SeededHash>;

void ReadAddedTokens(const JsonFields& root, TokenizerSpec* spec) {
  if (!root.Has("added_tokens")) return;
  root.ForEachObject("added_tokens", [&](size_t, const JsonFields& token) {
    if (spec->added_tokens.size() == kMaxAddedTokens)
      root.RefuseField("added_tokens", "holds more than a million tokens", "check that it is the right file");
    AddedToken added;
    added.content = token.Text("content");
    added.id = static_cast<int32_t>(token.Integer("id", 0, kMaxId));
    added.special = token.Boolean("special", false);
    added.normalized = token.Boolean("normalized", !added.special);
    added.single_word = token.Boolean("single_word", false);
    added.lstrip = token.Boolean("lstrip", false);
    added.rstrip = token.Boolean("rstrip", false);
    if (added.content.empty()) token.RefuseField("content", "is empty", "remove the token");
    spec->added_tokens.push_back(std::move(added));
  });
}

// The bytes of a vocabulary's token whose file spells bytes by letters; nothing where no text is made of them, as it is
// of none of a name such as "<|\u00e9|>".
std::optional<std::string> SpelledBytes(const TokenizerSpec& spec, std::string_view text) {
  if (spec.over_characters && !spec.spelled_in_alphabet) return std::nullopt;
  std::optional<std::string> bytes = BytesOfVocabularyText(text);
  if (bytes && bytes->size() > 1 && Utf8Length(*bytes) < bytes->size()) bytes.reset();
  return bytes;
}

class VocabularyReader {
 public:
  VocabularyReader(const JsonFields& model, TokenizerSpec* spec) : model_(model), spec_(*spec) {
    spec_.byte_ids.fill(-1);
    for (const AddedToken& token : spec_.added_tokens) added_.emplace(token.content, 0);
  }

  Vocabulary Read() {
    const std::optional<JsonValue> vocab = model_.Find("vocab");
    if (!vocab || !vocab->IsObject()) model_.RefuseField("vocab", "must be an object", "correct it");
    const int64_t most = MostId(vocab->size() + added_.size());
    by_text_.reserve(vocab->size());
    vocab->ForEachMember([&](std::string_view text, const JsonValue& value) {
      const std::optional<int64_t> id = value.IntegerIn(0, most);
      if (!id) {
        model_.RefuseField("vocab",
                           "the id of " + Quoted(text) + " must be a whole number from 0 to " + std::to_string(most),
                           "correct it");
      }
      Take(text, static_cast<int32_t>(*id));
    });
    for (size_t byte = 0; byte < spec_.byte_ids.size(); ++byte) {
      if (!spec_.by_bytes) spec_.byte_ids[byte] = -1;
      if (spec_.by_bytes && spec_.byte_ids[byte] < 0) {
        model_.RefuseField("vocab", "has no token for the byte " + std::to_string(byte),
                           "headscope needs a vocabulary that can spell every text");
      }
    }
    std::sort(spec_.character_ids.begin(), spec_.character_ids.end());
    spec_.words.Sort();
    for (const AddedToken& token : spec_.added_tokens) {
      if (added_.at(token.content) == 0) spec_.added_only.push_back(token.id);
    }
    std::sort(spec_.added_only.begin(), spec_.added_only.end());
    return std::move(by_text_);
  }

 private:
  void Take(std::string_view text, int32_t id) {
    by_text_.emplace(text, id);
    const std::optional<std::string> bytes =
        spec_.over_characters ? std::optional(BytesOfCharacters(text)) : BytesOfVocabularyText(text);
    const bool is_byte = spec_.over_characters ? ByteOfName(text) >= 0 : bytes && bytes->size() == 1;
    const bool has_affixes = !spec_.continuing_prefix.empty() || !spec_.last_suffix.empty();
    if (bytes && (has_affixes || (spec_.ignore_merges && spec_.over_characters)))
      spec_.words.Add(id, spec_.over_characters ? text : std::string_view(*bytes), false);
    // The name of an added token may stand in the vocabulary too. It is a word like others then, unless it is written
    // as none; bytes may have such names, since trainers take them as special tokens alone. Of a letter that stands for
    // a byte the name is in a text what it says, and the word is that byte.
    if (const auto added = added_.find(text); added != added_.end()) {
      const std::optional<std::string> spelled = SpelledBytes(spec_, text);
      const bool is_text = spec_.over_characters && !spec_.spelled_in_alphabet;
      spec_.tokens.Add(id, spelled ? std::string_view(*spelled) : is_text ? std::string_view(*bytes) : text, false);
      if (!spelled && (!bytes || (*bytes != text && !(spec_.over_characters && is_byte)))) return;
      added->second = 1;
    } else {
      if (!bytes || bytes->empty())
        model_.RefuseField("vocab", Quoted(text) + " is not written in the byte-level alphabet", kKnownTokenizers);
      const std::string& suffix = spec_.last_suffix;
      if (spec_.over_characters && !suffix.empty() && bytes->ends_with(suffix))
        spec_.tokens.Add(id, bytes->substr(0, bytes->size() - suffix.size()) + ' ', false);
      else
        spec_.tokens.Add(
            id, spec_.spelled_in_alphabet ? BytesOfVocabularyText(text).value_or(std::string(text)) : *bytes, false);
    }
    if (is_byte) {
      spec_.byte_ids[static_cast<unsigned char>(bytes->front())] = id;
    } else if (spec_.over_characters) {
      if (const Character c = FrontCharacter(text); c.length == text.size())
        spec_.character_ids.emplace_back(c.code, id);
    }
  }

  const JsonFields& model_;
  TokenizerSpec& spec_;
  Vocabulary by_text_;
  Vocabulary added_;  // the names of added tokens; 1 for one that is a word of the vocabulary as well
};

class MergeReader {
 public:
  MergeReader(const JsonFields& model, const Vocabulary& by_text, TokenizerSpec* spec)
      : model_(model), by_text_(by_text), prefix_(spec->continuing_prefix), merges_(spec->merges) {}

  void Read() {
    const JsonValue list = model_.Array("merges");
    merges_.reserve(list.size());
    list.ForEachElement([this](const JsonValue& rule) { Take(rule); });
  }

 private:
  void Take(const JsonValue& rule) {
    std::string_view left;
    std::string_view right;
    if (rule.IsString()) {
      const std::string_view text = rule.Text();
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        Refuse("must be two tokens with a space between");
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      size_t parts = 0;
      if (rule.IsArray() && rule.size() == 2) {
        rule.ForEachElement([&](const JsonValue& part) {
          if (part.IsString()) (parts++ == 0 ? left : right) = part.Text();
        });
      }
      if (parts != 2) Refuse("must be two tokens");
    }
    if (right.size() < prefix_.size()) Refuse("lacks the prefix of a token that continues a word");
    merged_.assign(left).append(right.substr(prefix_.size()));
    const auto left_at = by_text_.find(left);
    const auto right_at = by_text_.find(right);
    const auto merged_at = by_text_.find(std::string_view(merged_));
    if (left_at == by_text_.end() || right_at == by_text_.end() || merged_at == by_text_.end())
      Refuse("names a token that is not in the vocabulary");
    merges_.push_back({left_at->second, right_at->second, merged_at->second});
  }
  [[noreturn]] void Refuse(std::string_view problem) const {
    model_.RefuseField("merges[" + std::to_string(merges_.size()) + "]", problem, "correct it");
  }

  const JsonFields& model_;
  const Vocabulary& by_text_;
  const std::string& prefix_;
  std::vector<MergeRule>& merges_;
  std::string merged_;
};

void ReadModel(const JsonFields& root, TokenizerSpec* spec) {
  const JsonFields model = root.Object("model");
  const std::string type = model.Text("type", "BPE");
  if (type == "WordPiece" || type == "WordLevel" || type == "Unigram") {
    if (!spec->over_characters)
      model.RefuseField("type", Quoted(type) + " is not supported beside a ByteLevel pre_tokenizer", kKnownTokenizers);
    return type == "WordPiece"   ? ReadWordPiece(model, spec)
           : type == "WordLevel" ? ReadWordLevel(model, spec)
                                 : ReadUnigram(model, spec);
  }
  if (type != "BPE") model.RefuseField("type", Quoted(type) + " is not supported", kKnownTokenizers);
  if (model.Number("dropout", 0.0) != 0.0)
    model.RefuseField("dropout", "makes the ids random and is not supported", "set it to null");
  spec->by_bytes = !spec->over_characters || model.Boolean("byte_fallback", false);
  spec->ignore_merges = model.Boolean("ignore_merges", false);
  spec->continuing_prefix = model.Text("continuing_subword_prefix", "");
  spec->last_suffix = model.Text("end_of_word_suffix", "");
  spec->joins_unknown = model.Boolean("fuse_unk", false);
  const Vocabulary by_text = VocabularyReader(model, spec).Read();
  if (const std::string unknown = model.Text("unk_token", ""); !unknown.empty()) {
    const auto found = by_text.find(unknown);
    if (found != by_text.end())
      spec->unknown_id = found->second;
    else if (!spec->by_bytes)
      model.RefuseField("unk_token", "is not a token of the vocabulary", "correct it");
  }
  MergeReader(model, by_text, spec).Read();
}

void PutAddedTokens(const JsonFields& root, TokenizerSpec* spec) {
  const int64_t most = MostId(spec->tokens.count() + spec->added_tokens.size());
  for (const AddedToken& token : spec->added_tokens) {
    if (token.id > most) {
      root.RefuseField("added_tokens", "the id " + std::to_string(token.id) + " lies far outside the vocabulary",
                       "correct it");
    }
    const bool by_characters =
        spec->over_characters && spec->kind != TokenKind::kWordPiece && !spec->spelled_in_alphabet;
    std::optional<std::string> word;  // of a token that is one, too
    if (spec->kind == TokenKind::kBytePairs && !std::ranges::binary_search(spec->added_only, token.id))
      word = SpelledBytes(*spec, token.content);
    if (spec->kind == TokenKind::kWordLevel)
      spec->tokens.Add(token.id, std::string(1, ' ').append(token.content), token.special);
    else if (word)
      spec->tokens.Add(token.id, *word, token.special);
    else
      spec->tokens.Add(token.id, by_characters ? BytesOfCharacters(token.content) : token.content, token.special);
  }
  if (const std::optional<int32_t> twice = spec->tokens.Sort()) {
    root.RefuseField("model.vocab", "and added_tokens give the id " + std::to_string(*twice) + " to two tokens",
                     "correct one of them");
  }
}

// The ids of each special token that a template may name.
std::unordered_map<std::string_view, JsonValue, SeededHash> TemplateTokens(const JsonFields& processor) {
  std::unordered_map<std::string_view, JsonValue, SeededHash> tokens;
  const std::optional<JsonValue> all = processor.Find("special_tokens");
  if (all && all->IsObject()) {
    all->ForEachMember([&](std::string_view name, const JsonValue& token) { tokens.emplace(name, token); });
  }
  return tokens;
}

void ReadTemplate(const JsonFields& processor, TokenizerSpec* spec) {
  const auto tokens = TemplateTokens(processor);
  bool after_text = false;
  processor.ForEachObject("single", [&](size_t, const JsonFields& piece) {
    if (piece.Has("Sequence")) {
      if (after_text) piece.RefuseField("Sequence", "the text appears twice", kKnownTokenizers);
      after_text = true;
      return;
    }
    const std::string name = piece.Object("SpecialToken").Text("id");
    const std::string path = std::string("special_tokens.").append(name, 0, 40);
    const auto token = tokens.find(name);
    if (token == tokens.end()) processor.RefuseField(path, "the field is missing", "add it to the file");
    const JsonFields fields(token->second, processor.file(), processor.PathOf(path));
    const JsonValue ids = fields.Array("ids");
    if (spec->template_before.size() + spec->template_after.size() + ids.size() > kMaxTemplateIds) {
      processor.RefuseField("single", "puts more than " + std::to_string(kMaxTemplateIds) + " ids around the text",
                            "correct it");
    }
    ids.ForEachElement([&](const JsonValue& value) {
      const std::optional<int64_t> id = value.IntegerIn(0, kMaxId);
      if (!id || !spec->tokens.Find(static_cast<int32_t>(*id)))
        fields.RefuseField("ids", "names a token that is not in the vocabulary", "correct it");
      (after_text ? spec->template_after : spec->template_before).push_back(static_cast<int32_t>(*id));
    });
  });
  if (!after_text) processor.RefuseField("single", "does not hold the text", "correct it");
}

// ["[CLS]", 101]: the id.
int32_t NamedId(const JsonFields& processor, std::string_view key, const TokenizerSpec& spec) {
  std::optional<int64_t> id;
  processor.Array(key).ForEachElement([&](const JsonValue& part) {
    if (!part.IsString()) id = part.IntegerIn(0, kMaxId);
  });
  if (!id || !spec.tokens.Find(static_cast<int32_t>(*id)))
    processor.RefuseField(key, "names a token that is not in the vocabulary", "correct it");
  return static_cast<int32_t>(*id);
}

void ReadPostProcessor(const JsonFields& root, TokenizerSpec* spec) {
  if (!root.Has("post_processor")) return;
  bool has_template = false;
  ForEachStep(root.Object("post_processor"), "processors", [&](const JsonFields& processor) {
    const std::string type = processor.Text("type");
    if (type == "TemplateProcessing") {
      if (has_template) processor.RefuseField("type", "two templates are not supported", kKnownTokenizers);
      has_template = true;
      ReadTemplate(processor, spec);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      if (has_template) processor.RefuseField("type", "two templates are not supported", kKnownTokenizers);
      has_template = true;
      spec->template_before = {NamedId(processor, "cls", *spec)};
      spec->template_after = {NamedId(processor, "sep", *spec)};
    } else if (type != "ByteLevel") {  // ByteLevel only moves offsets
      processor.RefuseField("type", Quoted(type) + " is not supported here", kKnownTokenizers);
    }
  });
}

// Whether a BPE's own tokens hold the spaces of a text, or the bytes of it.
bool SpellsSpaces(const TokenizerSpec& spec) {
  if (!spec.over_characters || spec.by_bytes) return true;
  bool found = false;
  spec.tokens.ForEach([&](int32_t id, std::string_view bytes) {
    const bool is_own = !std::ranges::binary_search(spec.added_only, id);
    found = found || (is_own && bytes.find(' ') != std::string_view::npos);
  });
  return found;
}

// What turns tokens back into text: the bytes of each are known by now, so the decoder may say nothing else. Without
// one, that library writes tokens as the file spells them and a space between; where tokens hold the text's own spaces
// or bytes that hides it ("t he \u0120h ou se"), and what is compared and shown is the text.
void ReadDecoder(const JsonFields& root, TokenizerSpec* spec) {
  if (!root.Has("decoder")) {
    spec->decoded_apart = spec->kind == TokenKind::kBytePairs && !SpellsSpaces(*spec);
    return;
  }
  ForEachStep(root.Object("decoder"), "decoders", [&](const JsonFields& step) {
    const std::string type = step.Text("type");
    const auto known = [&](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), type) != names.end();
    };
    const bool is_known = spec->kind == TokenKind::kWordPiece   ? type == "WordPiece"
                          : spec->kind == TokenKind::kWordLevel ? false
                          : spec->over_characters
                              ? (spec->spelled_in_alphabet && type == "ByteLevel") ||
                                    known({"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace", "BPEDecoder"})
                              : type == "ByteLevel";
    if (!is_known) step.RefuseField("type", Quoted(type) + " is not supported here", kKnownTokenizers);
    if (type == "Strip") spec->decoded_space_goes = step.Integer("start", 0, 1, 0) == 1;
    if (type == "WordPiece") spec->decoded_space_goes = true;
    if (type == "BPEDecoder") spec->decoded_end_goes = true;
    if (type == "Metaspace") {
      spec->decoded_space_goes =
          step.Text("prepend_scheme", step.Boolean("add_prefix_space", true) ? "always" : "never") != "never";
    }
  });
}

}  // namespace

TokenizerSpec ParseTokenizerSpec(std::string_view text, const std::string& file) {
  const JsonTree whole(text, file);
  const JsonFields root(whole.Root(), file, "");
  TokenizerSpec spec;
  // truncation and padding are of batches for an engine: a text is taken whole, and its length is the caller's matter.
  ReadAddedTokens(root, &spec);
  ReadNormalizer(root, &spec);
  spec.over_characters = !ReadPreTokenizer(root, &spec);
  spec.spelled_in_alphabet =
      spec.over_characters && root.Has("decoder") && root.Object("decoder").Text("type", "") == "ByteLevel";
  ReadModel(root, &spec);
  PutAddedTokens(root, &spec);
  ReadPostProcessor(root, &spec);
  ReadDecoder(root, &spec);
  return spec;
}

}  // namespace headscope::model
