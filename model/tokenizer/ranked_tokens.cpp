// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/ranked_tokens.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "checkpoint/strict_json.h"
#include "families/family.h"
#include "families/ranked_form.h"
#include "model/input_file.h"
#include "tokenizer/base64.h"
#include "tokenizer/merge_finder.h"
#include "tokenizer/text_stages.h"
#include "tokenizer/token_names.h"

namespace headscope::model {
namespace {

constexpr std::string_view kUsePublishedTokens =
    "use the file that was published with the weights, or the model's "
    "tokenizer.json";
constexpr size_t kMaxNames = 1 << 20;

const RankedForm& FormOf(const std::string& model_type, const std::string& file) {
  std::string known;
  for (const Family* family : Families()) {
    if (family->ranked_tokens == nullptr) continue;
    if (family->model_type == model_type) return *family->ranked_tokens;
    known.append(known.empty() ? "" : ", ").append(family->model_type);
  }
  Refuse(file, "",
         "lists tokens by rank and not how words are split, which is known for " + known + " and not for " +
             (model_type.empty() ? "a file without its model" : Quoted(model_type)),
         "use the model's tokenizer.json");
}

class RankReader {
 public:
  RankReader(std::string_view bytes, const std::string& file, TokenizerSpec* spec)
      : bytes_(bytes), file_(file), spec_(*spec) {}

  void Read() {
    ReadLines();
    spec_.byte_ids.fill(-1);
    spec_.tokens.Reserve(tokens_.size());
    const int64_t most = MostId(tokens_.size());
    for (size_t place = 0; place < tokens_.size(); ++place) {
      const auto id = tokens_[place].id;
      const std::string_view text = TextOf(place);
      if (id > most) Refuse(file_, NameOf(id), "lies far outside the vocabulary", kUsePublishedTokens);
      spec_.tokens.Add(id, text, false);
      if (text.size() == 1) spec_.byte_ids[static_cast<unsigned char>(text.front())] = id;
    }
    const auto missing = std::find(spec_.byte_ids.begin(), spec_.byte_ids.end(), -1);
    if (missing != spec_.byte_ids.end()) {
      Refuse(file_, "tokens", "have none for the byte " + std::to_string(missing - spec_.byte_ids.begin()),
             kUsePublishedTokens);
    }
    if (const std::optional<int32_t> twice = spec_.tokens.Sort())
      Refuse(file_, NameOf(*twice), "is given to two tokens", kUsePublishedTokens);
    AddMerges();
  }

 private:
  struct Token {
    uint32_t begin;  // in texts_; the whole of a file has less than 4 GiB
    uint32_t length;
    int32_t id;
  };
  static std::string NameOf(int32_t id) { return "rank " + std::to_string(id); }
  std::string_view TextOf(size_t place) const {
    return std::string_view(texts_).substr(tokens_[place].begin, tokens_[place].length);
  }

  void ReadLines() {
    std::string_view left = bytes_;
    for (size_t line = 1; !left.empty(); ++line) {
      const size_t end = std::min(left.find('\n'), left.size());
      std::string_view text = left.substr(0, end);
      left.remove_prefix(std::min(end + 1, left.size()));
      if (text.ends_with('\r')) text.remove_suffix(1);
      if (!text.empty()) Take(text, "line " + std::to_string(line));
    }
  }

  void Take(std::string_view line, const std::string& name) {
    constexpr int32_t kMaxRank = (1 << 24) - 1;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view number = line.substr(std::min(space + 1, line.size()));
    const std::optional<std::string> text = FromBase64(line.substr(0, space));
    int32_t rank = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (!text || text->empty() || error != std::errc() || end != number.data() + number.size() || rank < 0 ||
        rank > kMaxRank)
      Refuse(file_, name, "must be a token in base 64, a space and its rank", kUsePublishedTokens);
    if (text->size() > kLongestWord) Refuse(file_, name, "has a token of more than 512 bytes", kUsePublishedTokens);
    tokens_.push_back({static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(text->size()), rank});
    texts_ += *text;
  }

  void AddMerges() {
    const size_t most = bytes_.size() / 4 + 1024;  // memory follows the file's size
    MergeFinder finder(tokens_.size(), kLongestWord, [this](size_t place) { return TextOf(place); });
    for (size_t place = 0; place < tokens_.size(); ++place) {
      const Token& first = tokens_[finder.FirstLike(place)];
      if (first.id != tokens_[place].id)
        Refuse(file_, NameOf(tokens_[place].id), "is of the same token as " + NameOf(first.id), kUsePublishedTokens);
    }
    finder.ForEachMerge(false, [&](int32_t left, int32_t right, int32_t whole) {
      if (spec_.merges.size() == most)
        Refuse(file_, "tokens", "can be made of each other in too many ways", kUsePublishedTokens);
      const int32_t id = tokens_[static_cast<size_t>(whole)].id;
      spec_.merges.push_back({tokens_[static_cast<size_t>(left)].id, tokens_[static_cast<size_t>(right)].id, id, id});
    });
  }

  std::string_view bytes_;
  const std::string& file_;
  TokenizerSpec& spec_;
  std::vector<Token> tokens_;
  std::string texts_;
};

void AddReserved(int32_t first, int32_t count, std::vector<AddedToken>* names) {
  std::vector<int32_t> named;
  for (const AddedToken& name : *names) named.push_back(name.id);
  std::sort(named.begin(), named.end());
  for (int32_t id = first; id < first + count; ++id) {
    if (std::binary_search(named.begin(), named.end(), id)) continue;
    names->push_back({.content = "<|reserved_token_" + std::to_string(id) + "|>", .id = id, .special = true});
  }
}

void AddNames(const RankedForm& form, const std::string& file, const RankedUse& use, TokenizerSpec* spec) {
  spec->added_tokens = use.names;
  if (spec->added_tokens.empty()) {
    int32_t id = spec->tokens.end_id();
    std::vector<std::string> names;
    if (form.names != nullptr) names = form.names(use.after_llama_3);
    for (std::string& name : names)
      spec->added_tokens.push_back({.content = std::move(name), .id = id++, .special = true});
  }
  AddReserved(spec->tokens.end_id(), form.reserved, &spec->added_tokens);
  const int64_t most = MostId(spec->tokens.count() + spec->added_tokens.size());
  for (AddedToken& token : spec->added_tokens) {
    if (token.id > most)
      Refuse(file, "the name " + Quoted(token.content), "has an id far outside the vocabulary", kUsePublishedTokens);
    token.normalized = form.composed;
    spec->tokens.Add(token.id, token.content, token.special);
    spec->added_only.push_back(token.id);
  }
  std::sort(spec->added_only.begin(), spec->added_only.end());
  if (const std::optional<int32_t> twice = spec->tokens.Sort())
    Refuse(file, "the id " + std::to_string(*twice), "is a token's and a name's", kUsePublishedTokens);
  for (const std::string_view name : form.before) {
    if (name.empty()) break;
    const auto found = std::find_if(spec->added_tokens.begin(), spec->added_tokens.end(),
                                    [&](const AddedToken& token) { return token.content == name; });
    if (found == spec->added_tokens.end())
      Refuse(file, "", "stands beside a tokenizer_config.json without the name " + Quoted(name), kUsePublishedTokens);
    spec->template_before.push_back(found->id);
  }
}

}  // namespace

bool IsRankedTokens(std::string_view bytes) {
  std::string_view line = bytes.substr(0, bytes.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == line.size()) return false;
  return line.find_first_not_of("0123456789", space + 1) == std::string_view::npos &&
         FromBase64(line.substr(0, space)).has_value();
}

std::vector<AddedToken> ParseNamesBeside(std::string_view text, const std::string& file) {
  const JsonTree json(text, file);
  const JsonFields root(json.Root(), file, "");
  std::vector<AddedToken> names;
  const std::optional<JsonValue> all = root.Find("added_tokens_decoder");
  if (!all) return names;
  if (!all->IsObject()) root.RefuseField("added_tokens_decoder", "must be an object", "correct it");
  all->ForEachMember([&](std::string_view key, const JsonValue& value) {
    constexpr int32_t kMaxId = (1 << 24) - 1;
    if (names.size() == kMaxNames)
      root.RefuseField("added_tokens_decoder", "holds more than a million names", "check that it is the right file");
    AddedToken name;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), name.id);
    if (error != std::errc() || end != key.data() + key.size() || name.id < 0 || name.id > kMaxId)
      root.RefuseField("added_tokens_decoder", Quoted(key) + " is not an id", "correct it");
    const JsonFields fields(value, file, "added_tokens_decoder." + std::to_string(name.id));
    name.content = fields.Text("content");
    name.special = fields.Boolean("special", false);
    name.single_word = fields.Boolean("single_word", false);
    name.lstrip = fields.Boolean("lstrip", false);
    name.rstrip = fields.Boolean("rstrip", false);
    if (name.content.empty()) fields.RefuseField("content", "is empty", "remove the token");
    names.push_back(std::move(name));
  });
  return names;
}

TokenizerSpec ParseRankedTokens(std::string_view bytes, const std::string& file, const RankedUse& use) {
  const RankedForm& form = FormOf(use.model_type, file);
  TokenizerSpec spec;
  spec.ignore_merges = true;  // a piece that is a token is that token, whether or not it can be merged
  if (form.composed) spec.normalizer.push_back({.kind = NormalizerStep::Kind::kNfc, .pattern = {}, .content = {}});
  spec.in_slices = form.in_slices;
  spec.pre_tokenizer.push_back(SplitOf(form.split));
  RankReader(bytes, file, &spec).Read();
  AddNames(form, file, use, &spec);
  return spec;
}

}  // namespace headscope::model
