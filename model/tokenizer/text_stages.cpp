// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/text_stages.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "model/input_file.h"
#include "tokenizer/base64.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {
namespace {

constexpr size_t kMaxSteps = 32;            // of a stage; real ones have three
constexpr size_t kLongestReplacement = 64;  // bytes
constexpr std::string_view kUsePublished = "use the tokenizer.json that was published with the weights";

// Splits that are known to mean the same in PCRE2 (with Unicode properties) as in the tokenizers library, and to take
// time in proportion to the text: a file may not bring an expression of its own.
constexpr std::string_view kGpt2Split = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama 3: digits in groups of three
constexpr std::string_view kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen 1 to 3: single digits
constexpr std::string_view kQwenSplit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// DeepSeek V2's words: letters that have a case, by their code points, since normal forms would change some of them.
constexpr std::string_view kCasedSplit =
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373"
    "\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F"
    "\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77"
    "\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D"
    "\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4"
    "\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139"
    "\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D"
    "\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A"
    "\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+";
constexpr std::string_view kSpacesAtEnd = R"(\s+$)";
// Kimi K2: Han characters are words of their own. Written as in tokenizer.json, where && is the intersection of
// classes.
constexpr std::string_view kKimiSplit =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// BLOOM: to Oniguruma, the brackets within are a class of their own
constexpr std::string_view kBloomSplit = " ?[^(\\s|[.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C])]+";
// Digits in groups of three that are counted from their end, as Trinity's and SuperBPE's
constexpr std::string_view kDigitsFromEnd = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";
constexpr std::string_view kFalconDigits = "[0-9][0-9][0-9]";
constexpr std::array<std::string_view, 25> kKnownSplits = {
    // GPT-2, also what ByteLevel means by use_regex
    kGpt2Split, kLlama3Split, kQwenSplit, kKimiSplit,
    // Qwen 3.5: marks are part of words
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // Mistral's tekken: words change at capitals
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // o200k, of GPT-4o, GPT-OSS and Llama 4: the same with contractions as ends of words, and digits in groups of three
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // DeepSeek V3's two, around a run of CJK
    R"(\p{N}{1,3})",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // DeepSeek V2's four and DeepSeek Coder's, before a run of CJK
    R"([\r\n])", kCasedSplit, "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+", kSpacesAtEnd,
    R"(\s?\p{L}+)", R"(\s?\p{P}+)", kBloomSplit, kFalconDigits,
    // GPT-2's with its contractions in short
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    // cl100k of tiktoken, as GPT-4's
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
    // Seed-Coder, and the same with the one digit not counted
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)",
    kDigitsFromEnd,
    // Parts of others
    R"(\p{N})", R"(\p{N}+)", R"(\s+)"};

// White space before the end of a line, as the tokenizers library means it by a dollar sign: looked at once for a run
// of it, where starting anew from each of its characters would take the square of its length.
constexpr std::string_view kRunAtEnd = R"((?<!\p{White_Space})(?:\p{White_Space}++\z|\p{White_Space}+(?=\n)))";

// PCRE2 has no intersection of classes, and a look ahead at each letter would take its stack for every one of them. A
// letter or mark that is not small is one outside all other categories, and Han is one more thing to be outside of;
// sc: is the script alone, without the signs that several scripts share.
constexpr std::string_view kKimiInPcre2 =
    R"([\p{sc:Han}]+|[^\r\n\p{L}\p{N}]?[^\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Ll}\p{sc:Han}]*[^\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Lu}\p{Lt}\p{sc:Han}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[^\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Ll}\p{sc:Han}]+[^\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Lu}\p{Lt}\p{sc:Han}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kBloomInPcre2 = " ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+";

// How many digits follow is counted once for a run of them, where counting anew from each group would take the square
// of its length: what is left behind the first group is threes.
constexpr std::string_view kDigitsFromEndInPcre2 =
    R"((?<=\p{N})\p{N}{3}|(?<!\p{N})\p{N}{1,3}(?=(?:\p{N}{3})*+(?!\p{N})))";

// \s stands for White_Space in the tokenizers library; line breaks may be written as themselves.
std::string ToPcre2(std::string_view pattern) {
  if (pattern == kSpacesAtEnd) return std::string(kRunAtEnd);
  if (pattern == kKimiSplit) pattern = kKimiInPcre2;
  if (pattern == kBloomSplit) pattern = kBloomInPcre2;
  if (pattern == kDigitsFromEnd) pattern = kDigitsFromEndInPcre2;
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\') {
      out += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];  // no known pattern ends in a backslash
    if (escaped == 's' || escaped == 'S')
      out += escaped == 's' ? R"(\p{White_Space})" : R"(\P{White_Space})";
    else
      out.append(1, '\\').append(1, escaped);
  }
  return out;
}

std::string WithEscapedBreaks(std::string_view pattern) {
  std::string out;
  for (const char c : pattern) {
    if (c == '\r' || c == '\n')
      out += c == '\r' ? R"(\r)" : R"(\n)";
    else
      out += c;
  }
  return out;
}

// The first character of a class, written out or as \uHHHH or \x{H..}, which is taken away; none where it is one of
// ASCII, which may have a meaning, or no character.
std::optional<uint32_t> TakeBeyondAscii(std::string_view* text) {
  std::string_view digits;
  size_t length = 0;
  uint32_t code = 0;
  if (text->starts_with("\\u")) {
    digits = text->substr(2, 4);
    length = 6;
  } else if (text->starts_with("\\x{")) {
    const size_t end = std::min(text->find('}'), text->size());
    digits = text->substr(3, end - 3);
    length = end + 1;
  } else if (!text->empty()) {
    const Character front = FrontCharacter(*text);
    code = front.code;
    length = front.length;
  }
  if (!digits.empty()) {
    const auto [behind, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || behind != digits.data() + digits.size()) return {};
  }
  if (length == 0 || length > text->size() || code < 0x80 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
    return {};
  text->remove_prefix(length);
  return code;
}

// "[..]+" of characters beyond ASCII and ranges of them, as PCRE2 takes it: runs of some scripts, which a file may
// choose, since such an expression means one thing and takes time in proportion to the text. Empty: it is none.
std::string RunOfCharacters(std::string_view pattern) {
  constexpr size_t kLongestClass = 4096;  // bytes
  if (!pattern.starts_with('[') || !pattern.ends_with("]+") || pattern.size() > kLongestClass) return {};
  std::string_view left = pattern.substr(1, pattern.size() - 3);
  std::ostringstream out;
  out << '[' << std::hex;
  while (!left.empty()) {
    const std::optional<uint32_t> first = TakeBeyondAscii(&left);
    std::optional<uint32_t> last = first;
    if (first && left.starts_with('-')) {
      left.remove_prefix(1);
      last = TakeBeyondAscii(&left);
    }
    if (!first || !last || *last < *first) return {};
    out << "\\x{" << *first << "}-\\x{" << *last << '}';
  }
  return out.str() == "[" ? "" : out.str() + "]+";
}

void RefuseMoreSteps(const JsonFields& step, size_t known) {
  if (known == kMaxSteps) step.RefuseField("type", "stands after 32 other steps", kKnownTokenizers);
}

std::string ShortText(const JsonFields& fields, std::string_view key) {
  std::string text = fields.Text(key);
  if (text.size() > kLongestReplacement)
    fields.RefuseField(key, "has more than 64 bytes, which no replacement needs", kKnownTokenizers);
  return text;
}

// Expressions that published normalizers replace by a text; like the splits above, linear in both libraries.
constexpr std::array<std::string_view, 8> kKnownReplacements = {R"( {2,})", R"( +)",   R"(\s+)",     R"(\s{2,})",
                                                                R"(\n)",    R"(\r\n)", R"([\r\n]+)", R"([\n\r\t]+)"};

NormalizerStep ReadReplace(const JsonFields& step) {
  NormalizerStep read{.kind = NormalizerStep::Kind::kReplace, .pattern = {}, .content = ShortText(step, "content")};
  const JsonFields pattern = step.Object("pattern");
  if (pattern.Has("Regex")) {
    const std::string written = WithEscapedBreaks(pattern.Text("Regex"));
    if (std::find(kKnownReplacements.begin(), kKnownReplacements.end(), written) == kKnownReplacements.end())
      pattern.RefuseField("Regex", "is not one of the expressions that headscope knows", kKnownTokenizers);
    read.expression = std::make_shared<const Splitter>(ToPcre2(written));
    return read;
  }
  read.pattern = ShortText(pattern, "String");
  if (read.pattern.empty()) pattern.RefuseField("String", "is empty", "remove the step");
  return read;
}

// The map of characters of a file, in base 64.
std::shared_ptr<const CharacterMap> ReadCharacterMap(const JsonFields& step) {
  const std::optional<std::string> blob = FromBase64(step.Text("precompiled_charsmap"));
  std::optional<CharacterMap> map = blob ? CharacterMap::Read(*blob) : std::nullopt;
  if (!map) step.RefuseField("precompiled_charsmap", "is not a character map", kUsePublished);
  return std::make_shared<const CharacterMap>(std::move(*map));
}

void ReadNormalizerStep(const JsonFields& step, TokenizerSpec* spec) {
  using Kind = NormalizerStep::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 8> kPlain = {{{"NFC", Kind::kNfc},
                                                                        {"NFD", Kind::kNfd},
                                                                        {"NFKC", Kind::kNfkc},
                                                                        {"NFKD", Kind::kNfkd},
                                                                        {"Lowercase", Kind::kLowercase},
                                                                        {"StripAccents", Kind::kStripMarks},
                                                                        {"ByteLevel", Kind::kByteLevel},
                                                                        {"Nmt", Kind::kNmt}}};
  RefuseMoreSteps(step, spec->normalizer.size());
  const std::string type = step.Text("type");
  for (const auto& [name, kind] : kPlain) {
    if (name == type) {
      spec->normalizer.push_back({.kind = kind, .pattern = {}, .content = {}});
      return;
    }
  }
  if (type == "BertNormalizer") {
    const bool lower = step.Boolean("lowercase", true);
    const auto add = [&](bool wanted, Kind kind) {
      if (wanted) spec->normalizer.push_back({.kind = kind, .pattern = {}, .content = {}});
    };
    add(step.Boolean("clean_text", true), Kind::kClean);
    add(step.Boolean("handle_chinese_chars", true), Kind::kSpaceChinese);
    const bool strip = step.Boolean("strip_accents", lower);
    add(strip, Kind::kNfd);
    add(strip, Kind::kStripAccents);
    add(lower, Kind::kLowercase);
  } else if (type == "Replace") {
    spec->normalizer.push_back(ReadReplace(step));
  } else if (type == "Prepend") {
    spec->normalizer.push_back({.kind = Kind::kPrepend, .pattern = {}, .content = ShortText(step, "prepend")});
  } else if (type == "Strip") {
    spec->normalizer.push_back({.kind = Kind::kStrip,
                                .strip_left = step.Boolean("strip_left", true),
                                .strip_right = step.Boolean("strip_right", true),
                                .pattern = {},
                                .content = {}});
  } else if (type == "Precompiled") {
    spec->normalizer.push_back(
        {.kind = Kind::kCharacterMap, .pattern = {}, .content = {}, .map = ReadCharacterMap(step)});
  } else {
    step.RefuseField(
        "type", Quoted(type) + " is not supported here",
        "NFC, NFD, NFKC, NFKD, Nmt, Lowercase, Strip, StripAccents, BertNormalizer, ByteLevel, Precompiled, "
        "Replace and Prepend are; a model with any other is recorded from its token ids, or with " +
            std::string(kRecordFromPython));
  }
}

SplitBehavior ReadBehavior(const JsonFields& split) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {
      {{"Isolated", SplitBehavior::kIsolated},
       {"Removed", SplitBehavior::kRemoved},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  const std::string name = split.Text("behavior");
  for (const auto& [known, behavior] : kNames) {
    if (known == name) return behavior;
  }
  split.RefuseField("behavior", Quoted(name) + " is not known", kKnownTokenizers);
}

PreTokenizerStep ReadSplit(const JsonFields& split) {
  PreTokenizerStep step;
  step.behavior = ReadBehavior(split);
  step.invert = split.Boolean("invert", false);
  const JsonFields pattern = split.Object("pattern");
  if (pattern.Has("String")) {
    step.reads = Splitter::Pattern::kLiteral;
    step.pattern = pattern.Text("String");
    if (step.pattern.empty()) pattern.RefuseField("String", "is empty", "remove the step");
    return step;
  }
  const std::string written = WithEscapedBreaks(pattern.Text("Regex"));
  for (const std::string_view known : kKnownSplits) {
    if (known == written) step.pattern = ToPcre2(known);
  }
  if (step.pattern.empty()) step.pattern = RunOfCharacters(written);
  if (step.pattern.empty())
    split.RefuseField("pattern.Regex", "is not one of the splits that headscope knows", kKnownTokenizers);
  return step;
}

// What BERT's tokenizer calls punctuation: that of Unicode 8, whose tables the tokenizers library has, and all signs of
// ASCII. Two characters have been signs or marks since; the others came later.
constexpr std::string_view kPunctuation =
    R"([!-/:-@\[-`{-~\x{166D}\x{111C9}]|(?![\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B7D}\x{1B7E}\x{2E43}-\x{2E4F})"
    R"(\x{2E52}-\x{2E5D}\x{10EAD}\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}\x{1144B}-\x{1144F}\x{1145A}\x{1145B}\x{1145D})"
    R"(\x{11660}-\x{1166C}\x{116B9}\x{1183B}\x{11944}-\x{11946}\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11A9C})"
    R"(\x{11A9E}-\x{11AA2}\x{11C41}-\x{11C45}\x{11C70}\x{11C71}\x{11EF7}\x{11EF8}\x{11FFF}\x{12FF1}\x{12FF2})"
    R"(\x{16E97}-\x{16E9A}\x{16FE2}\x{1E95E}\x{1E95F}])\p{P})";

// Words, and stretches of what is neither a word nor white space.
constexpr std::string_view kWordsAndSigns = R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+)"
                                            R"(|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\s]+)";

void AddPattern(std::string_view pattern, SplitBehavior behavior, std::vector<PreTokenizerStep>* steps) {
  PreTokenizerStep step;
  step.pattern = ToPcre2(pattern);
  step.behavior = behavior;
  steps->push_back(std::move(step));
}

PreTokenizerStep ReadDelimiter(const JsonFields& step) {
  PreTokenizerStep read;
  read.behavior = SplitBehavior::kRemoved;
  read.reads = Splitter::Pattern::kLiteral;
  read.pattern = step.Text("delimiter");
  if (read.pattern.empty()) step.RefuseField("delimiter", "is empty", "remove the step");
  return read;
}

PreTokenizerStep ReadMetaspace(const JsonFields& step) {
  PreTokenizerStep read{.kind = PreTokenizerStep::Kind::kMetaspace, .pattern = {}};
  read.pattern = ShortText(step, "replacement");
  read.cuts = step.Boolean("split", true);
  const std::string scheme = step.Text("prepend_scheme", step.Boolean("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    step.RefuseField("prepend_scheme", Quoted(scheme) + " is not known", kKnownTokenizers);
  read.prefix = scheme == "always"  ? PreTokenizerStep::Prefix::kAlways
                : scheme == "first" ? PreTokenizerStep::Prefix::kFirst
                                    : PreTokenizerStep::Prefix::kNever;
  return read;
}

// A step after ByteLevel, as Falcon has them: it sees a letter for each byte. Some of those letters are digits to the
// tokenizers library: superscripts and fractions, which stand for bytes within characters.
PreTokenizerStep ReadStepOfBytes(const JsonFields& step, const std::string& type) {
  constexpr std::string_view kDigitBytes = R"([0-9\xB2\xB3\xB9\xBC-\xBE])";
  PreTokenizerStep read;
  if (type == "Digits") {
    read.pattern = kDigitBytes;
    if (!step.Boolean("individual_digits", false)) read.pattern += '+';
  } else if (type == "Split") {
    read = ReadSplit(step);
    if (read.pattern != kFalconDigits)
      step.RefuseField("pattern", "is not supported after ByteLevel, but for [0-9][0-9][0-9]", kKnownTokenizers);
  } else {
    step.RefuseField("type", Quoted(type) + " is not supported after ByteLevel", kKnownTokenizers);
  }
  if (read.reads != Splitter::Pattern::kLiteral) read.reads = Splitter::Pattern::kBytes;
  return read;
}

}  // namespace

PreTokenizerStep SplitOf(PublishedSplit split) {
  PreTokenizerStep step;
  step.pattern = ToPcre2(split == PublishedSplit::kLlama3 ? kLlama3Split
                         : split == PublishedSplit::kQwen ? kQwenSplit
                                                          : kKimiSplit);
  return step;
}

void ReadNormalizer(const JsonFields& root, TokenizerSpec* spec) {
  if (!root.Has("normalizer")) return;
  ForEachStep(root.Object("normalizer"), "normalizers",
              [&](const JsonFields& step) { ReadNormalizerStep(step, spec); });
}

bool ReadPreTokenizer(const JsonFields& root, TokenizerSpec* spec) {
  if (!root.Has("pre_tokenizer")) return false;
  bool byte_level = false;
  ForEachStep(root.Object("pre_tokenizer"), "pretokenizers", [&](const JsonFields& step) {
    std::vector<PreTokenizerStep>& steps = spec->pre_tokenizer;
    RefuseMoreSteps(step, steps.size());
    const std::string type = step.Text("type");
    if (byte_level) {
      steps.push_back(ReadStepOfBytes(step, type));
    } else if (type == "Split") {
      steps.push_back(ReadSplit(step));
    } else if (type == "Digits") {
      PreTokenizerStep digits;
      digits.pattern = step.Boolean("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)";
      steps.push_back(digits);
    } else if (type == "CharDelimiterSplit") {
      steps.push_back(ReadDelimiter(step));
    } else if (type == "Metaspace") {
      steps.push_back(ReadMetaspace(step));
    } else if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
      AddPattern(R"(\s)", SplitBehavior::kRemoved, &steps);
      if (type == "BertPreTokenizer") AddPattern(kPunctuation, SplitBehavior::kIsolated, &steps);
    } else if (type == "Whitespace") {
      AddPattern(kWordsAndSigns, SplitBehavior::kRemoved, &steps);
      steps.back().invert = true;
    } else if (type == "Punctuation") {
      AddPattern(kPunctuation, step.Has("behavior") ? ReadBehavior(step) : SplitBehavior::kIsolated, &steps);
    } else if (type == "UnicodeScripts") {
      steps.push_back({.kind = PreTokenizerStep::Kind::kScripts, .pattern = {}});
    } else if (type == "FixedLength") {
      constexpr int64_t kLongest = 65535;  // which expressions can count to
      AddPattern("(?s).{1," + std::to_string(step.Integer("length", 1, kLongest, 5)) + "}", SplitBehavior::kIsolated,
                 &steps);
    } else if (type == "ByteLevel") {
      byte_level = true;
      // The library's own defaults, for files of its older versions: both true.
      if (step.Boolean("add_prefix_space", true)) {
        PreTokenizerStep space;
        space.kind = PreTokenizerStep::Kind::kPrefixSpace;
        steps.push_back(space);
      }
      if (step.Boolean("use_regex", true)) {
        PreTokenizerStep split;
        split.pattern = ToPcre2(kGpt2Split);
        steps.push_back(split);
      }
    } else {
      step.RefuseField("type", Quoted(type) + " is not supported here", kKnownTokenizers);
    }
  });
  return byte_level;
}

}  // namespace headscope::model
