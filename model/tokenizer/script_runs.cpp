// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/script_runs.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "tokenizer/script_table.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {
namespace {

constexpr int kAny = -1;

int ScriptOf(uint32_t code) {
  const std::span<const ScriptRange> ranges = ScriptRanges();
  const auto behind = std::ranges::upper_bound(ranges, code, {}, &ScriptRange::first);
  if (behind == ranges.begin()) return kAny;
  const ScriptRange& range = *(behind - 1);
  return code <= range.last ? range.script : kAny;
}

}  // namespace

void ForEachScriptRun(std::string_view text, const std::function<void(std::string_view run)>& visit) {
  int last = kAny;
  size_t begin = text.size();
  for (size_t at = 0; at < text.size();) {
    const Character c = FrontCharacter(text.substr(at));
    const int script = c.length > 0 ? ScriptOf(c.code) : kCommonScript;
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
