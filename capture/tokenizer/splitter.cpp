#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/splitter.h"

#include <pcre2.h>

#include <array>
#include <stdexcept>

namespace headscope::capture {
namespace {

std::string MessageOf(int error) {
  std::array<unsigned char, 160> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

void Splitter::Free::operator()(void* code) const {
  pcre2_code_free(static_cast<pcre2_code*>(code));
}

Splitter::Splitter(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr));
  if (!code_)
    throw std::invalid_argument("the split pattern fails at character " + std::to_string(at) + ": " + MessageOf(error));
  // Without JIT (a hardened kernel may forbid it) matching is slower and gives the same result.
  pcre2_jit_compile(static_cast<pcre2_code*>(code_.get()), PCRE2_JIT_COMPLETE);
}

std::vector<std::string_view> Splitter::Split(std::string_view text) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(code, nullptr), &pcre2_match_data_free);
  std::vector<std::string_view> pieces;
  size_t done = 0;
  while (done < text.size()) {
    const int found =
        pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), done, 0, match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      throw std::runtime_error("splitting the text failed at byte " + std::to_string(done) + ": " + MessageOf(found));
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
    if (bounds[0] > done) pieces.push_back(text.substr(done, bounds[0] - done));
    pieces.push_back(text.substr(bounds[0], bounds[1] - bounds[0]));
    done = bounds[1];  // no known split matches the empty string
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
  return pieces;
}

}  // namespace headscope::capture
