// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/splitter.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <stdexcept>

#include "base/errors.h"
#include "model/tokenizer.h"
#include "tokenizer/stand_ins.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {
namespace {

std::string MessageOf(int error) {
  std::array<unsigned char, 160> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <typename T, void (*Release)(T*)>
struct Releaser {
  void operator()(T* object) const { Release(object); }
};
using Matches = std::unique_ptr<pcre2_match_data, Releaser<pcre2_match_data, pcre2_match_data_free>>;
using Context = std::unique_ptr<pcre2_match_context, Releaser<pcre2_match_context, pcre2_match_context_free>>;

// A run of white space is walked to its end and back, a step per character, so the limit of steps grows with the text;
// what the interpreter keeps meanwhile (without JIT) is bounded too.
Context LimitsFor(size_t length) {
  constexpr size_t kLeast = 1'000'000;
  constexpr size_t kStepsPerByte = 16;
  constexpr uint32_t kHeapKib = 64 << 10;
  Context context(pcre2_match_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  const size_t steps = std::min<size_t>(kLeast + kStepsPerByte * length, UINT32_MAX);
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(steps));
  pcre2_set_heap_limit(context.get(), kHeapKib);
  return context;
}

// Whether a pattern asks for the class of a character, other than white space, which no later character is: letters
// that it lists by themselves must not be met by stand-ins.
bool HasClasses(std::string_view pattern) {
  for (size_t at = pattern.find('\\'); at != std::string_view::npos; at = pattern.find('\\', at + 2)) {
    const std::string_view escaped = pattern.substr(at + 1);
    if ((escaped.starts_with('p') || escaped.starts_with('P')) && !escaped.substr(1).starts_with("{White_Space}"))
      return true;
  }
  return false;
}

}  // namespace

void Splitter::Free::operator()(void* code) const {
  pcre2_code_free(static_cast<pcre2_code*>(code));
}

Splitter::Splitter(const std::string& pattern, Pattern kind) : kind_(kind) {
  if (kind == Pattern::kLiteral) {
    literal_ = pattern;
    return;
  }
  has_classes_ = kind == Pattern::kCharacters && HasClasses(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  const uint32_t options = kind == Pattern::kCharacters ? PCRE2_UTF | PCRE2_UCP : 0;
  code_.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &at, nullptr));
  if (!code_)
    throw std::invalid_argument("the split pattern fails at character " + std::to_string(at) + ": " + MessageOf(error));
  // Without JIT (a hardened kernel may forbid it) matching is slower and gives the same result.
  pcre2_jit_compile(static_cast<pcre2_code*>(code_.get()), PCRE2_JIT_COMPLETE);
}

void Splitter::ForEachPart(std::string_view text, const Visit& visit) const {
  if (!code_) {
    SplitLiteral(text, visit);
    return;
  }
  if (kind_ == Pattern::kBytes) {
    SplitByExpression(text, visit);
    return;
  }
  while (!text.empty()) {
    const size_t valid = Utf8Length(text);
    if (valid > 0) SplitByExpression(text.substr(0, valid), visit);
    text.remove_prefix(valid);
    const size_t invalid = InvalidAtFront(text);
    if (invalid > 0) visit(text.substr(0, invalid), false);
    text.remove_prefix(invalid);
  }
}

void Splitter::SplitLiteral(std::string_view text, const Visit& visit) const {
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(literal_, at), text.size());
    if (found > at) visit(text.substr(at, found - at), false);
    if (found < text.size()) visit(text.substr(found, literal_.size()), true);
    at = found + literal_.size();
  }
}

void Splitter::SplitByExpression(std::string_view text, const Visit& visit) const {
  const std::optional<std::string> stand_ins = has_classes_ ? WithStandIns(text) : std::nullopt;
  const std::string_view seen = stand_ins ? std::string_view(*stand_ins) : text;
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const Matches match(pcre2_match_data_create_from_pattern(code, nullptr));
  const Context limits = LimitsFor(text.size());
  if (!match) throw std::bad_alloc();
  size_t done = 0;
  while (done < text.size()) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(seen.data()), seen.size(), done,
                                  PCRE2_NO_UTF_CHECK, match.get(), limits.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      throw BadInputError(
          {.problem = "splitting the text into words failed at byte " + std::to_string(done) + ": " + MessageOf(found),
           .remedy = "use a shorter text"});
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
    if (bounds[0] > done) visit(text.substr(done, bounds[0] - done), false);
    visit(text.substr(bounds[0], bounds[1] - bounds[0]), true);
    done = bounds[1];  // no known split matches the empty string
  }
  if (done < text.size()) visit(text.substr(done), false);
}

}  // namespace headscope::model
