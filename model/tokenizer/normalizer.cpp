// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/errors.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/library_characters.h"
#include "tokenizer/token_names.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {
namespace {

using Kind = NormalizerStep::Kind;

constexpr size_t kMostGrowth = 32;
constexpr size_t kSmallText = 1024;  // bytes; may grow by any factor up to that size

class Output {
 public:
  explicit Output(size_t input_size) : most_(kMostGrowth * input_size + kSmallText) {}
  void Append(std::string_view part) {
    Count(part.size());
    text += part;
  }
  // So many bytes more, which may be dropped.
  void Count(size_t bytes) {
    if (bytes > most_ - counted_) {
      throw BadInputError({.file = "tokenizer.json",
                           .field = "normalizer",
                           .problem = "makes the text more than " + std::to_string(kMostGrowth) + " times as long",
                           .remedy = "use the tokenizer.json that was published with the weights"});
    }
    counted_ += bytes;
  }
  std::string text;

 private:
  size_t most_;
  size_t counted_ = 0;
};

// What that library knows of a character otherwise; null: nothing.
const LibraryCharacters* InLibrary(uint32_t code) {
  const std::span<const LibraryCharacters> all = AllLibraryCharacters();
  if (code < all.front().first) return nullptr;
  const auto behind = std::ranges::upper_bound(all, code, {}, &LibraryCharacters::first);
  return std::prev(behind)->last >= code ? &*std::prev(behind) : nullptr;
}

bool IsInLibrary(uint32_t code, LibraryFlag flag) {
  const LibraryCharacters* known = InLibrary(code);
  return known != nullptr && (known->flags & flag) != 0;
}

// No normal form joins such a character with what stands before it or moves anything across it: ASCII, letters with
// case, digits and the common Han characters. (A decomposition of one begins with a letter.)
bool BeginsAnew(uint32_t code) {
  if (code < 0x80 || (code >= 0x4E00 && code <= 0x9FFF)) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_ND:
      return true;
    default:
      return false;
  }
}

int OptionsOf(Kind kind) {
  switch (kind) {
    case Kind::kNfd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case Kind::kNfkc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case Kind::kNfkd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    default:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  }
}

void AppendNormalForm(std::string_view text, Kind kind, Output* out) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(OptionsOf(kind)));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(result, &std::free);
  if (length < 0) throw std::bad_alloc();  // the text is valid UTF-8, so nothing else can fail
  out->Append({reinterpret_cast<const char*>(result), static_cast<size_t>(length)});
}

// In pieces, since utf8proc keeps four bytes for every character of what it is given, and up to 18 characters for one;
// a piece ends where nothing is joined. ASCII is its own normal form.
void NormalForm(std::string_view text, Kind kind, Output* out) {
  constexpr size_t kPiece = 4096;
  size_t begin = 0;
  bool ascii = true;
  size_t at = 0;
  const auto flush = [&] {
    const std::string_view piece = text.substr(begin, at - begin);
    if (ascii)
      out->Append(piece);
    else
      AppendNormalForm(piece, kind, out);
    begin = at;
    ascii = true;
  };
  while (at < text.size()) {
    const Character c = FrontCharacter(text.substr(at));
    if (c.length == 0) {
      flush();
      const size_t invalid = InvalidAtFront(text.substr(at));
      out->Append(text.substr(at, invalid));
      begin = at += invalid;
      continue;
    }
    if (IsInLibrary(c.code, kHasNoForm)) {
      flush();
      out->Append(text.substr(at, c.length));
      begin = at += c.length;
      continue;
    }
    if (at - begin >= kPiece && BeginsAnew(c.code)) flush();
    ascii = ascii && c.code < 0x80;
    at += c.length;
  }
  flush();
}

void Lowercase(std::string_view text, Output* out) {
  std::string lower;
  for (size_t at = 0; at < text.size();) {
    const Character c = FrontCharacter(text.substr(at));
    if (c.length == 0) {
      const size_t invalid = InvalidAtFront(text.substr(at));
      lower.append(text.substr(at, invalid));
      at += invalid;
      continue;
    }
    constexpr uint32_t kCapitalIWithDot = 0x130;
    if (const LibraryCharacters* known = InLibrary(c.code); known != nullptr && known->lower != 0)
      AppendCharacter(known->lower + (c.code - known->first), &lower);
    else if (c.code == kCapitalIWithDot)
      lower += "i\xCC\x87";  // the only capital that is two characters in lower case
    else
      AppendCharacter(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code))), &lower);
    at += c.length;
  }
  out->Append(lower);
}

void Replace(std::string_view text, const NormalizerStep& step, Output* out) {
  if (step.expression != nullptr) {
    step.expression->ForEachPart(text, [&](std::string_view part, bool matches) {
      out->Append(matches ? std::string_view(step.content) : part);
    });
    return;
  }
  for (size_t at = 0;;) {
    const size_t found = text.find(step.pattern, at);
    out->Append(text.substr(at, found == std::string_view::npos ? found : found - at));
    if (found == std::string_view::npos) return;
    out->Append(step.content);
    at = found + step.pattern.size();
  }
}

// Each character by `put(uint32_t code, std::string* out)`; bytes that are not UTF-8 stay.
template <typename Put>
void ByCharacter(std::string_view text, Output* out, const Put& put) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    const Character c = FrontCharacter(text.substr(at));
    if (c.length == 0) {
      const size_t invalid = InvalidAtFront(text.substr(at));
      made.append(text.substr(at, invalid));
      at += invalid;
      continue;
    }
    put(c.code, &made);
    at += c.length;
  }
  out->Append(made);
}

utf8proc_category_t CategoryOf(uint32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// One character was without width in the Unicode of that library's tables for BERT, and is not any more.
bool HasNoWidth(uint32_t code) {
  return code == 0x1734 || (CategoryOf(code) == UTF8PROC_CATEGORY_MN && !IsInLibrary(code, kHasWidth));
}

// Two signs of the Vedas are letters since.
bool IsMark(uint32_t code) {
  if (code == 0x1CF2 || code == 0x1CF3) return true;
  const utf8proc_category_t category = CategoryOf(code);
  return (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME) &&
         !IsInLibrary(code, kIsNoMark);
}

void StripMarks(std::string_view text, bool all, Output* out) {
  ByCharacter(text, out, [&](uint32_t code, std::string* made) {
    const bool goes = all ? IsMark(code) : HasNoWidth(code);
    if (!goes) AppendCharacter(code, made);
  });
}

void Clean(std::string_view text, Output* out) {
  constexpr uint32_t kReplacement = 0xFFFD;
  ByCharacter(text, out, [](uint32_t code, std::string* made) {
    const utf8proc_category_t category = CategoryOf(code);
    const bool is_break = code == '\t' || code == '\n' || code == '\r';
    const bool is_other = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CO ||
                          (category == UTF8PROC_CATEGORY_CF && !IsInLibrary(code, kIsNoControl));
    if (!is_break && (code == 0 || code == kReplacement || is_other)) return;
    AppendCharacter(is_break || IsWhiteSpace(code) ? ' ' : code, made);
  });
}

// The blocks of Chinese characters as BERT's own tokenizer has them.
bool IsChinese(uint32_t code) {
  constexpr std::pair<uint32_t, uint32_t> kBlocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                       {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                                       {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [&](const auto& block) { return code >= block.first && code <= block.second; });
}

void SpaceChinese(std::string_view text, Output* out) {
  ByCharacter(text, out, [](uint32_t code, std::string* made) {
    const bool apart = IsChinese(code);
    if (apart) *made += ' ';
    AppendCharacter(code, made);
    if (apart) *made += ' ';
  });
}

// Some control characters go; line breaks and what has no width of its own are spaces.
void Nmt(std::string_view text, Output* out) {
  ByCharacter(text, out, [](uint32_t code, std::string* made) {
    const bool goes = (code >= 0x01 && code <= 0x08) || code == 0x0B || (code >= 0x0E && code <= 0x1F) ||
                      code == 0x7F || code == 0x8F || code == 0x9F;
    if (goes) return;
    const bool is_space = code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D || code == 0x1680 ||
                          (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
                          code == 0xFEFF || code == 0xFFFD;
    AppendCharacter(is_space ? ' ' : code, made);
  });
}

// Bytes of the characters at the front of `text`, which is not empty, that Unicode counts as one (a grapheme cluster).
size_t ClusterAtFront(std::string_view text) {
  Character last = FrontCharacter(text);
  size_t length = last.length;
  if (length == 0) return InvalidAtFront(text);
  utf8proc_int32_t state = 0;
  for (Character next = FrontCharacter(text.substr(length)); next.length > 0;
       next = FrontCharacter(text.substr(length))) {
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    length += next.length;
    last = next;
  }
  return length;
}

// As the tokenizers library reads such a map: a short cluster becomes what stands for the shortest text that it begins
// with, all of it, and only where there is none its characters are looked for one by one.
void MapClusters(std::string_view text, const CharacterMap& map, Output* out) {
  constexpr size_t kShortCluster = 6;  // bytes
  while (!text.empty()) {
    const std::string_view cluster = text.substr(0, ClusterAtFront(text));
    text.remove_prefix(cluster.size());
    const CharacterMap::Match whole = cluster.size() < kShortCluster ? map.Shortest(cluster) : CharacterMap::Match{};
    if (whole.length > 0) {
      out->Append(whole.becomes);
      continue;
    }
    for (size_t at = 0; at < cluster.size();) {
      const std::string_view part = cluster.substr(at, std::max<size_t>(FrontCharacter(cluster.substr(at)).length, 1));
      const CharacterMap::Match match = map.Shortest(part);
      out->Append(match.length > 0 ? match.becomes : part);
      at += part.size();
    }
  }
}

class SentencePieceText {
 public:
  SentencePieceText(const SentencePieceRules& rules, Output* out)
      : rules_(rules), out_(*out), after_space_(rules.joins_spaces) {}

  void Take(std::string_view text, bool first) {
    bool wants_prefix = rules_.dummy_prefix && first;
    const std::vector<TokenFinder::Match> whole =
        rules_.finder ? rules_.finder->Find(text) : std::vector<TokenFinder::Match>{};
    size_t next_whole = 0;
    for (size_t at = 0; at < text.size();) {
      while (next_whole < whole.size() && whole[next_whole].begin < at) ++next_whole;
      std::string_view part;
      if (next_whole < whole.size() && whole[next_whole].begin == at) {
        part = rules_.whole[whole[next_whole].pattern];
        at += part.size();
      } else {
        part = Part(text, &at);
      }
      out_.Count(part.size());
      if (wants_prefix) {
        if (rules_.joins_spaces && part == " ") continue;  // before the text
        out_.Append(kSpaceMark);
        wants_prefix = false;
      }
      Put(part);
    }
    if (!rules_.joins_spaces) return;
    while (out_.text.ends_with(kSpaceMark)) out_.text.resize(out_.text.size() - kSpaceMark.size());
  }

 private:
  // What stands for the characters of `text` at `at`, which moves behind them.
  std::string_view Part(std::string_view text, size_t* at) const {
    const std::string_view rest = text.substr(*at);
    const CharacterMap::Match match = rules_.map ? rules_.map->Longest(rest) : CharacterMap::Match{};
    const size_t length = match.length > 0 ? match.length : std::max<size_t>(FrontCharacter(rest).length, 1);
    *at += length;
    return match.length > 0 ? match.becomes : rest.substr(0, length);
  }
  void Put(std::string_view part) {
    while (after_space_ && part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty()) return;
    for (const char c : part) {
      if (c == ' ')
        out_.Append(kSpaceMark);
      else
        out_.Append({&c, 1});
    }
    after_space_ = rules_.joins_spaces && part.back() == ' ';
  }
  const SentencePieceRules& rules_;
  Output& out_;
  bool after_space_;
};

void Apply(std::string_view text, const NormalizerStep& step, bool first, Output* out) {
  switch (step.kind) {
    case Kind::kNfc:
    case Kind::kNfd:
    case Kind::kNfkc:
    case Kind::kNfkd:
      NormalForm(text, step.kind, out);
      return;
    case Kind::kLowercase:
      Lowercase(text, out);
      return;
    case Kind::kStrip:
      if (step.strip_left) text.remove_prefix(WhiteSpaceAtFront(text));
      if (step.strip_right) text.remove_suffix(WhiteSpaceAtBack(text));
      out->Append(text);
      return;
    case Kind::kStripMarks:
    case Kind::kStripAccents:
      StripMarks(text, step.kind == Kind::kStripMarks, out);
      return;
    case Kind::kClean:
      Clean(text, out);
      return;
    case Kind::kSpaceChinese:
      SpaceChinese(text, out);
      return;
    case Kind::kNmt:
      Nmt(text, out);
      return;
    case Kind::kCharacterMap:
      MapClusters(text, *step.map, out);
      return;
    case Kind::kSentencePiece:
      SentencePieceText(*step.rules, out).Take(text, first);
      return;
    case Kind::kByteLevel: {
      std::string spelled;
      for (const char byte : text) AppendCharacter(CharacterOfByte(static_cast<uint8_t>(byte)), &spelled);
      out->Append(spelled);
      return;
    }
    case Kind::kReplace:
      Replace(text, step, out);
      return;
    case Kind::kPrepend:
      if (!text.empty()) out->Append(step.content);
      out->Append(text);
      return;
  }
}

// Whether the step takes the first character of the text away, and puts nothing in its place.
bool FrontGoes(std::string_view text, const NormalizerStep& step) {
  switch (step.kind) {
    case Kind::kStrip:
    case Kind::kNmt:
    case Kind::kClean:
    case Kind::kStripMarks:
    case Kind::kStripAccents: {
      const std::string_view front = text.substr(0, FrontCharacter(text).length);
      Output left(front.size());
      Apply(front, step, false, &left);
      return left.text.empty() && !front.empty() && (step.kind != Kind::kStrip || step.strip_left);
    }
    case Kind::kReplace: {
      if (!step.content.empty()) return false;
      if (step.expression == nullptr) return text.starts_with(step.pattern);
      std::optional<bool> goes;
      step.expression->ForEachPart(text, [&](std::string_view, bool matches) { goes = goes.value_or(matches); });
      return goes.value_or(false);
    }
    default:
      return false;
  }
}

}  // namespace

std::string Normalize(std::string_view text, const std::vector<NormalizerStep>& steps, bool* at_start) {
  std::string current(text);
  for (const NormalizerStep& step : steps) {
    Output out(text.size());
    Apply(current, step, *at_start, &out);
    *at_start = *at_start && !FrontGoes(current, step);
    current = std::move(out.text);
  }
  return current;
}

}  // namespace headscope::model
