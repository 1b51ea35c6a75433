#include "tokenizer/tokenizer_spec.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "checkpoint/strict_json.h"
#include "tokenizer/byte_alphabet.h"

namespace headscope::capture {
namespace {

using nlohmann::json;

constexpr int64_t kMaxId = (1 << 24) - 1;
constexpr std::string_view kByteLevelOnly =
    "headscope reads byte-level BPE tokenizers of the GPT-2, Llama 3 and Qwen kinds";

// A split that is known to mean the same in PCRE2 (with Unicode properties) as in the tokenizers library. \s stands for
// White_Space there.
struct KnownSplit {
  std::string_view as_written;
  std::string_view pcre2;
};
constexpr std::string_view kGpt2Split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)";
constexpr std::array<KnownSplit, 3> kKnownSplits = {{
    // GPT-2, also what ByteLevel means by use_regex
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", kGpt2Split},
    // Llama 3: digits in groups of three
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*|\p{White_Space}*[\r\n]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)"},
    // Qwen 2 and 3: single digits
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*|\p{White_Space}*[\r\n]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)"},
}};

void ReadAddedTokens(const JsonFields& root, TokenizerSpec* spec) {
  const json* list = root.Find("added_tokens");
  if (list == nullptr) return;
  if (!list->is_array()) root.RefuseField("added_tokens", "must be an array", "correct it");
  for (size_t i = 0; i < list->size(); ++i) {
    const JsonFields token((*list)[i], root.file(), "added_tokens[" + std::to_string(i) + "]");
    for (const char* option : {"single_word", "lstrip", "rstrip"}) {
      if (token.Boolean(option, false)) token.RefuseField(option, "true is not supported", kByteLevelOnly);
    }
    AddedToken added;
    added.content = token.Text("content");
    added.id = static_cast<int32_t>(token.Integer("id", 0, kMaxId));
    added.special = token.Boolean("special", false);
    added.normalized = token.Boolean("normalized", !added.special);
    if (added.content.empty()) token.RefuseField("content", "is empty", "remove the token");
    spec->added_tokens.push_back(std::move(added));
  }
}

void ReadSplit(const JsonFields& split, TokenizerSpec* spec) {
  if (split.Text("behavior") != "Isolated") split.RefuseField("behavior", "only Isolated is supported", kByteLevelOnly);
  if (split.Boolean("invert", false)) split.RefuseField("invert", "true is not supported", kByteLevelOnly);
  const std::string pattern = split.Object("pattern").Text("Regex");
  for (const KnownSplit& known : kKnownSplits) {
    if (known.as_written == pattern) spec->split_pattern = known.pcre2;
  }
  if (spec->split_pattern.empty())
    split.RefuseField("pattern.Regex", "is not one of the splits that headscope knows", kByteLevelOnly);
}

// ByteLevel alone (GPT-2), or Split and ByteLevel without its own regex (Llama 3, Qwen).
void ReadPreTokenizer(const JsonFields& root, TokenizerSpec* spec) {
  const JsonFields whole = root.Object("pre_tokenizer");
  std::vector<JsonFields> steps;
  if (whole.Text("type") == "Sequence") {
    const json* list = whole.Find("pretokenizers");
    if (list == nullptr || !list->is_array()) whole.RefuseField("pretokenizers", "must be an array", "correct it");
    for (size_t i = 0; i < list->size(); ++i) {
      steps.emplace_back((*list)[i], root.file(), "pre_tokenizer.pretokenizers[" + std::to_string(i) + "]");
    }
  } else {
    steps.push_back(whole);
  }
  bool byte_level = false;
  for (const JsonFields& step : steps) {
    const std::string type = step.Text("type");
    if (byte_level) step.RefuseField("type", "a step after ByteLevel is not supported", kByteLevelOnly);
    if (type == "Split" && spec->split_pattern.empty()) {
      ReadSplit(step, spec);
    } else if (type == "ByteLevel") {
      byte_level = true;
      // The library's own defaults, for files of its older versions: both true.
      if (step.Boolean("add_prefix_space", true))
        step.RefuseField("add_prefix_space", "true is not supported", kByteLevelOnly);
      if (step.Boolean("use_regex", true)) {
        if (!spec->split_pattern.empty())
          step.RefuseField("use_regex", "true after a Split is not supported", kByteLevelOnly);
        spec->split_pattern = kGpt2Split;
      }
    } else {
      step.RefuseField("type", "\"" + type.substr(0, 40) + "\" is not supported here", kByteLevelOnly);
    }
  }
  if (!byte_level || spec->split_pattern.empty())
    root.RefuseField("pre_tokenizer", "must split and end in ByteLevel", kByteLevelOnly);
}

void ReadTemplate(const JsonFields& processor, TokenizerSpec* spec) {
  const json* single = processor.Find("single");
  if (single == nullptr || !single->is_array()) processor.RefuseField("single", "must be an array", "correct it");
  bool after_text = false;
  for (size_t i = 0; i < single->size(); ++i) {
    const JsonFields piece((*single)[i], processor.file(), processor.PathOf("single") + "[" + std::to_string(i) + "]");
    if (piece.Has("Sequence")) {
      if (after_text) piece.RefuseField("Sequence", "the text stands twice", kByteLevelOnly);
      after_text = true;
      continue;
    }
    const std::string name = piece.Object("SpecialToken").Text("id");
    const JsonFields token = processor.Object("special_tokens").Object(name);
    const json* ids = token.Find("ids");
    if (ids == nullptr || !ids->is_array()) token.RefuseField("ids", "must be an array", "correct it");
    for (const json& id : *ids) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= spec->token_bytes.size())
        token.RefuseField("ids", "names a token that the vocabulary lacks", "correct it");
      (after_text ? spec->template_after : spec->template_before).push_back(id.get<int32_t>());
    }
  }
  if (!after_text) processor.RefuseField("single", "does not hold the text", "correct it");
}

void ReadPostProcessor(const JsonFields& processor, TokenizerSpec* spec, bool nested) {
  const std::string type = processor.Text("type");
  if (type == "TemplateProcessing") {
    if (!spec->template_before.empty() || !spec->template_after.empty())
      processor.RefuseField("type", "two templates are not supported", kByteLevelOnly);
    ReadTemplate(processor, spec);
  } else if (type == "Sequence" && !nested) {
    const json* list = processor.Find("processors");
    if (list == nullptr || !list->is_array()) processor.RefuseField("processors", "must be an array", "correct it");
    for (size_t i = 0; i < list->size(); ++i) {
      ReadPostProcessor(
          JsonFields((*list)[i], processor.file(), processor.PathOf("processors") + "[" + std::to_string(i) + "]"),
          spec, true);
    }
  } else if (type != "ByteLevel") {  // ByteLevel only moves offsets
    processor.RefuseField("type", "\"" + type.substr(0, 40) + "\" is not supported here", kByteLevelOnly);
  }
}

using Vocabulary = std::unordered_map<std::string, int32_t>;  // by bytes

void PutToken(const std::string& bytes, int32_t id, const JsonFields& where, std::string_view key,
              TokenizerSpec* spec) {
  const auto index = static_cast<size_t>(id);
  if (index >= spec->token_bytes.size()) spec->token_bytes.resize(index + 1);
  if (!spec->token_bytes[index].empty() && spec->token_bytes[index] != bytes) {
    where.RefuseField(key, "the id " + std::to_string(id) + " belongs to two tokens", "correct one of them");
  }
  spec->token_bytes[index] = bytes;
}

Vocabulary ReadVocabulary(const JsonFields& model, TokenizerSpec* spec) {
  const json* vocab = model.Find("vocab");
  if (vocab == nullptr || !vocab->is_object()) model.RefuseField("vocab", "must be an object", "correct it");
  std::unordered_set<std::string_view> names_of_added;
  for (const AddedToken& token : spec->added_tokens) names_of_added.insert(token.content);
  Vocabulary by_bytes;
  for (const auto& [text, id] : vocab->items()) {
    // Ids may have holes, but not so many that a small file asks for a large table.
    const auto most = std::min<uint64_t>(kMaxId, 4 * (vocab->size() + 1024));
    if (!id.is_number_unsigned() || id.get<uint64_t>() > most) {
      model.RefuseField(
          "vocab", "the id of \"" + text.substr(0, 40) + "\" must be a whole number from 0 to " + std::to_string(most),
          "correct it");
    }
    // Names of added tokens may stand in the vocabulary too, in any characters; they never come from merges.
    if (names_of_added.contains(text)) {
      PutToken(text, id.get<int32_t>(), model, "vocab", spec);
      continue;
    }
    const std::optional<std::string> bytes = BytesOfVocabularyText(text);
    if (!bytes || bytes->empty())
      model.RefuseField("vocab", "\"" + text.substr(0, 40) + "\" is not written in the byte-level alphabet",
                        kByteLevelOnly);
    PutToken(*bytes, id.get<int32_t>(), model, "vocab", spec);
    by_bytes.emplace(*bytes, id.get<int32_t>());
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (!by_bytes.contains(std::string(1, static_cast<char>(byte)))) {
      model.RefuseField("vocab", "has no token for the byte " + std::to_string(byte),
                        "headscope needs a vocabulary that can spell every text");
    }
  }
  return by_bytes;
}

void ReadMerges(const JsonFields& model, const Vocabulary& by_bytes, TokenizerSpec* spec) {
  const json* merges = model.Find("merges");
  if (merges == nullptr || !merges->is_array()) model.RefuseField("merges", "must be an array", "correct it");
  spec->merges.reserve(merges->size());
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const auto refuse = [&](std::string_view problem) {
      model.RefuseField("merges[" + std::to_string(rank) + "]", problem, "correct it");
    };
    const json& rule = (*merges)[rank];
    std::string left;
    std::string right;
    if (rule.is_string()) {
      const auto& text = rule.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        refuse("must be two tokens with a space between");
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (rule.is_array() && rule.size() == 2 && rule[0].is_string() && rule[1].is_string()) {
      left = rule[0].get<std::string>();
      right = rule[1].get<std::string>();
    } else {
      refuse("must be two tokens");
    }
    const std::optional<std::string> left_bytes = BytesOfVocabularyText(left);
    const std::optional<std::string> right_bytes = BytesOfVocabularyText(right);
    if (!left_bytes || !right_bytes) refuse("is not written in the byte-level alphabet");
    const auto left_at = by_bytes.find(*left_bytes);
    const auto right_at = by_bytes.find(*right_bytes);
    const auto merged_at = by_bytes.find(*left_bytes + *right_bytes);
    if (left_at == by_bytes.end() || right_at == by_bytes.end() || merged_at == by_bytes.end())
      refuse("names a token that the vocabulary lacks");
    spec->merges.push_back({left_at->second, right_at->second, merged_at->second});
  }
}

void ReadModel(const JsonFields& root, TokenizerSpec* spec) {
  const JsonFields model = root.Object("model");
  if (const std::string type = model.Text("type", "BPE"); type != "BPE") {
    model.RefuseField("type", "\"" + type.substr(0, 40) + "\" is not supported", kByteLevelOnly);
  }
  if (model.Number("dropout", 0.0) != 0.0)
    model.RefuseField("dropout", "makes the ids random and is not supported", "set it to null");
  if (model.Boolean("byte_fallback", false))
    model.RefuseField("byte_fallback", "true is not supported", kByteLevelOnly);
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.Text(affix, "").empty()) model.RefuseField(affix, "is not supported", kByteLevelOnly);
  }
  spec->ignore_merges = model.Boolean("ignore_merges", false);
  const Vocabulary by_bytes = ReadVocabulary(model, spec);
  ReadMerges(model, by_bytes, spec);
}

}  // namespace

TokenizerSpec ParseTokenizerSpec(std::string_view text, const std::string& file) {
  const json whole = ParseStrictJson(text, file);
  const JsonFields root(whole, file, "");
  TokenizerSpec spec;
  for (const char* stage : {"truncation", "padding"}) {
    if (root.Has(stage)) root.RefuseField(stage, "would change the ids and is not supported", "set it to null");
  }
  if (root.Has("normalizer")) {
    root.RefuseField("normalizer",
                     "\"" + root.Object("normalizer").Text("type", "").substr(0, 40) + "\" is not supported",
                     kByteLevelOnly);
  }
  ReadAddedTokens(root, &spec);
  ReadPreTokenizer(root, &spec);
  ReadModel(root, &spec);
  for (const AddedToken& token : spec.added_tokens) {
    if (static_cast<size_t>(token.id) > 4 * (spec.token_bytes.size() + 1024)) {
      root.RefuseField("added_tokens", "the id " + std::to_string(token.id) + " lies far outside the vocabulary",
                       "correct it");
    }
    PutToken(token.content, token.id, root, "added_tokens", &spec);
  }
  if (root.Has("post_processor")) ReadPostProcessor(root.Object("post_processor"), &spec, false);
  if (root.Object("decoder").Text("type") != "ByteLevel")
    root.RefuseField("decoder.type", "only ByteLevel is supported", kByteLevelOnly);
  return spec;
}

}  // namespace headscope::capture
