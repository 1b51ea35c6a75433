// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/script_runs.h"

#include <pcre2.h>

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "tokenizer/unicode_text.h"

namespace headscope::model {
namespace {

// Beside Han and what is read as it, the scripts of Unicode 9, which that library knows.
constexpr std::array kScripts = {"Common",
                                 "Latin",
                                 "Greek",
                                 "Cyrillic",
                                 "Inherited",
                                 "Arabic",
                                 "Hebrew",
                                 "Devanagari",
                                 "Thai",
                                 "Hangul",
                                 "Armenian",
                                 "Bengali",
                                 "Georgian",
                                 "Tamil",
                                 "Telugu",
                                 "Kannada",
                                 "Malayalam",
                                 "Gujarati",
                                 "Gurmukhi",
                                 "Oriya",
                                 "Sinhala",
                                 "Lao",
                                 "Tibetan",
                                 "Myanmar",
                                 "Ethiopic",
                                 "Cherokee",
                                 "Canadian_Aboriginal",
                                 "Ogham",
                                 "Runic",
                                 "Khmer",
                                 "Mongolian",
                                 "Bopomofo",
                                 "Yi",
                                 "Old_Italic",
                                 "Gothic",
                                 "Deseret",
                                 "Tagalog",
                                 "Hanunoo",
                                 "Buhid",
                                 "Tagbanwa",
                                 "Limbu",
                                 "Tai_Le",
                                 "Linear_B",
                                 "Ugaritic",
                                 "Shavian",
                                 "Osmanya",
                                 "Cypriot",
                                 "Braille",
                                 "Buginese",
                                 "Coptic",
                                 "New_Tai_Lue",
                                 "Glagolitic",
                                 "Tifinagh",
                                 "Syloti_Nagri",
                                 "Old_Persian",
                                 "Kharoshthi",
                                 "Balinese",
                                 "Cuneiform",
                                 "Phoenician",
                                 "Phags_Pa",
                                 "Nko",
                                 "Sundanese",
                                 "Lepcha",
                                 "Ol_Chiki",
                                 "Vai",
                                 "Saurashtra",
                                 "Kayah_Li",
                                 "Rejang",
                                 "Lycian",
                                 "Carian",
                                 "Lydian",
                                 "Cham",
                                 "Tai_Tham",
                                 "Tai_Viet",
                                 "Avestan",
                                 "Egyptian_Hieroglyphs",
                                 "Samaritan",
                                 "Lisu",
                                 "Bamum",
                                 "Javanese",
                                 "Meetei_Mayek",
                                 "Imperial_Aramaic",
                                 "Old_South_Arabian",
                                 "Inscriptional_Parthian",
                                 "Inscriptional_Pahlavi",
                                 "Old_Turkic",
                                 "Kaithi",
                                 "Batak",
                                 "Brahmi",
                                 "Mandaic",
                                 "Chakma",
                                 "Meroitic_Cursive",
                                 "Meroitic_Hieroglyphs",
                                 "Miao",
                                 "Sharada",
                                 "Sora_Sompeng",
                                 "Takri",
                                 "Caucasian_Albanian",
                                 "Bassa_Vah",
                                 "Duployan",
                                 "Elbasan",
                                 "Grantha",
                                 "Pahawh_Hmong",
                                 "Khojki",
                                 "Linear_A",
                                 "Mahajani",
                                 "Manichaean",
                                 "Mende_Kikakui",
                                 "Modi",
                                 "Mro",
                                 "Old_North_Arabian",
                                 "Nabataean",
                                 "Palmyrene",
                                 "Pau_Cin_Hau",
                                 "Old_Permic",
                                 "Psalter_Pahlavi",
                                 "Siddham",
                                 "Khudawadi",
                                 "Tirhuta",
                                 "Warang_Citi",
                                 "Ahom",
                                 "Anatolian_Hieroglyphs",
                                 "Hatran",
                                 "Multani",
                                 "Old_Hungarian",
                                 "SignWriting",
                                 "Adlam",
                                 "Bhaiksuki",
                                 "Marchen",
                                 "Newa",
                                 "Osage",
                                 "Tangut",
                                 "Syriac",
                                 "Thaana"};

constexpr int kAny = 0, kHan = 1, kFirstOther = 2;
constexpr uint32_t kLongVowelMark = 0x30FC;

// \p{Latin} is a script up to PCRE2 10.39, and every character that is used with it from then on.
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
constexpr const char* kOneScript = "\\p{sc:";
#else
constexpr const char* kOneScript = "\\p{";
#endif

// One expression with a group for each script.
class Scripts {
 public:
  Scripts() {
    const auto one = [](const std::string& name) { return kOneScript + name + "}"; };
    std::string pattern = "([" + one("Han") + one("Hiragana") + one("Katakana") + "])";
    for (const char* name : kScripts) pattern += "|(" + one(name) + ")";
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, nullptr));
    if (!code_) throw std::logic_error("PCRE2 lacks the script at character " + std::to_string(at));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it matching is slower and gives the same result
  }

  // Of one character, which is valid UTF-8.
  int Of(std::string_view character, uint32_t code) const {
    if (code == ' ') return kAny;
    if (code == kLongVowelMark) return kHan;
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr), &pcre2_match_data_free);
    if (!match) throw std::bad_alloc();
    // One above the number of the group that matched.
    const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(character.data()), character.size(), 0,
                                  PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    return found < 2 ? kAny : found - 1;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
};

}  // namespace

void ForEachScriptRun(std::string_view text, const std::function<void(std::string_view run)>& visit) {
  static const Scripts scripts;
  constexpr size_t kMostKept = 1 << 16;
  std::unordered_map<uint32_t, int> known;  // a character's script is looked up once, and characters are few
  int last = kAny;
  size_t begin = text.size();
  for (size_t at = 0; at < text.size();) {
    const Character c = FrontCharacter(text.substr(at));
    int script = kFirstOther;  // Common
    if (c.length > 0) {
      const auto found = known.find(c.code);
      script = found != known.end() ? found->second : scripts.Of(text.substr(at, c.length), c.code);
      if (found == known.end() && known.size() < kMostKept) known.emplace(c.code, script);
    }
    if (script != kAny && script != last) {
      if (last != kAny) visit(text.substr(begin, at - begin));
      begin = at;
      last = script;
    }
    at += c.length > 0 ? c.length : 1;
  }
  if (last != kAny) visit(text.substr(begin));
}

}  // namespace headscope::model
