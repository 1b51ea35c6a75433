// SPDX-License-Identifier: Apache-2.0
#include "capture/prompt_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "model/input_file.h"
#include "model/tokenizer.h"

namespace headscope::capture {
namespace {

constexpr int64_t kMaxPromptBytes = 256 << 20;
constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";

std::string Converted(const std::string& from) {
  return "convert it, as iconv -f " + from + " -t UTF-8 does";
}

// Of text without a mark: one of the two bytes of spaces, digits and Latin letters is 0, and texts hold many.
std::string_view WideByZeros(std::string_view bytes) {
  if (bytes.size() % 2 != 0) return {};
  std::array<size_t, 2> zeros{};  // at even places and at odd ones
  for (size_t at = 0; at < bytes.size(); ++at) zeros[at % 2] += static_cast<size_t>(bytes[at] == '\0');
  const size_t many = std::max<size_t>(bytes.size() / 2 / 4, 1);
  if (zeros[0] == 0 && zeros[1] >= many) return "UTF-16LE";
  if (zeros[1] == 0 && zeros[0] >= many) return "UTF-16BE";
  return {};
}

// Empty where the bytes show none.
std::pair<std::string, std::string> WideEncoding(std::string_view bytes) {
  using std::string_view_literals::operator""sv;
  // UTF-32's mark of little-endian text begins with UTF-16's.
  if (bytes.starts_with("\xFF\xFE\0\0"sv) || bytes.starts_with("\0\0\xFE\xFF"sv))
    return {"UTF-32", "by its first bytes"};
  if (bytes.starts_with("\xFF\xFE"sv) || bytes.starts_with("\xFE\xFF"sv)) return {"UTF-16", "by its first bytes"};
  return {std::string(WideByZeros(bytes)), "by its bytes 0"};
}

}  // namespace

void RefuseOtherEncodings(const std::string& bytes, const std::string& file) {
  if (const auto& [encoding, shown] = WideEncoding(bytes); !encoding.empty()) {
    throw BadInputError(
        {.file = file, .problem = "is " + encoding + " " + shown + ", not UTF-8", .remedy = Converted(encoding)});
  }
  if (const size_t valid = model::Utf8Length(bytes); valid < bytes.size()) {
    throw BadInputError({.file = file,
                         .problem = "is not UTF-8 at byte " + std::to_string(valid),
                         .remedy = Converted("LATIN1") + " for a file in Latin-1"});
  }
}

std::string ReadPromptFile(const std::string& path) {
  return TextOfPromptFile(model::ReadSmallFile(path, kMaxPromptBytes), path);
}

std::string TextOfPromptFile(std::string bytes, const std::string& file) {
  RefuseOtherEncodings(bytes, file);
  if (const size_t zero = bytes.find('\0'); zero != std::string::npos) {
    throw BadInputError({.file = file,
                         .problem = "holds a byte 0 at byte " + std::to_string(zero) + ", so it is not text",
                         .remedy = "name a text file, or give the prompt as token ids"});
  }
  if (bytes.starts_with(kUtf8Mark)) bytes.erase(0, kUtf8Mark.size());
  return bytes;
}

}  // namespace headscope::capture
