// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

#include "base/errors.h"
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
    if (part.size() > most_ - text.size()) {
      throw BadInputError("tokenizer.json: normalizer: makes the text more than " + std::to_string(kMostGrowth) +
                          " times as long; use the tokenizer.json that was published with the weights");
    }
    text += part;
  }
  std::string text;

 private:
  size_t most_;
};

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
    if (c.code == kCapitalIWithDot)
      lower += "i\xCC\x87";  // the only capital that is two characters in lower case
    else
      AppendCharacter(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code))), &lower);
    at += c.length;
  }
  out->Append(lower);
}

void Replace(std::string_view text, const NormalizerStep& step, Output* out) {
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

void StripMarks(std::string_view text, bool all, Output* out) {
  ByCharacter(text, out, [&](uint32_t code, std::string* made) {
    const utf8proc_category_t category = CategoryOf(code);
    const bool goes = category == UTF8PROC_CATEGORY_MN ||
                      (all && (category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME));
    if (!goes) AppendCharacter(code, made);
  });
}

void Clean(std::string_view text, Output* out) {
  constexpr uint32_t kReplacement = 0xFFFD;
  ByCharacter(text, out, [](uint32_t code, std::string* made) {
    const utf8proc_category_t category = CategoryOf(code);
    const bool is_break = code == '\t' || code == '\n' || code == '\r';
    const bool is_other =
        category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
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

void Apply(std::string_view text, const NormalizerStep& step, Output* out) {
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
    case Kind::kReplace:
      Replace(text, step, out);
      return;
    case Kind::kPrepend:
      if (!text.empty()) out->Append(step.content);
      out->Append(text);
      return;
  }
}

}  // namespace

std::string Normalize(std::string_view text, const std::vector<NormalizerStep>& steps) {
  std::string current(text);
  for (const NormalizerStep& step : steps) {
    Output out(text.size());
    Apply(current, step, &out);
    current = std::move(out.text);
  }
  return current;
}

}  // namespace headscope::model
