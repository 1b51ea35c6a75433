// SPDX-License-Identifier: Apache-2.0
#include "prompt_file_fuzz.h"

#include <string>
#include <string_view>

#include "base/errors.h"
#include "capture/prompt_file.h"
#include "support/require.h"

namespace headscope::capture {
namespace {

using testing::Require;
using testing::RequireOneSentence;

// How many bytes at the front are whole characters, by the table of well-formed sequences in the Unicode standard
// (3.9, "UTF-8"): the second byte alone has ranges that depend on the first.
size_t WellFormed(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const auto byte = [&](size_t i) { return at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0U; };
    const auto within = [&](size_t i, unsigned least, unsigned most) { return byte(i) >= least && byte(i) <= most; };
    const auto tail = [&](size_t i) { return within(i, 0x80, 0xBF); };
    if (within(0, 0x00, 0x7F)) {
      at += 1;
    } else if (within(0, 0xC2, 0xDF) && tail(1)) {
      at += 2;
    } else if (within(0, 0xE0, 0xEF) && within(1, byte(0) == 0xE0 ? 0xA0 : 0x80, byte(0) == 0xED ? 0x9F : 0xBF) &&
               tail(2)) {
      at += 3;
    } else if (within(0, 0xF0, 0xF4) && within(1, byte(0) == 0xF0 ? 0x90 : 0x80, byte(0) == 0xF4 ? 0x8F : 0xBF) &&
               tail(2) && tail(3)) {
      at += 4;
    } else {
      break;
    }
  }
  return at;
}

}  // namespace

int FuzzPromptFile(const uint8_t* data, size_t size) {
  using std::string_view_literals::operator""sv;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const size_t well_formed = WellFormed(bytes), zero = bytes.find('\0');
  std::string text;
  try {
    text = TextOfPromptFile(bytes, "fuzz");
  } catch (const BadInputError& error) {
    RequireOneSentence(error.what());
    Require(well_formed < size || zero != std::string::npos, "a text refused");
    const std::string& problem = error.fault().problem;
    Require(!error.fault().remedy.empty(), "no remedy");
    if (problem.find("UTF-16") != std::string::npos || problem.find("UTF-32") != std::string::npos) {
      const std::string_view front = std::string_view(bytes).substr(0, 2);
      Require(front == "\xFF\xFE"sv || front == "\xFE\xFF"sv || zero != std::string::npos, "no wide text");
    } else if (well_formed < size) {
      Require(problem == "is not UTF-8 at byte " + std::to_string(well_formed), "another byte than the first");
    } else {
      Require(problem.starts_with("holds a byte 0 at byte " + std::to_string(zero) + ","), "another byte 0");
    }
    return 1;
  }
  Require(well_formed == size && zero == std::string::npos, "no text accepted");
  const std::string_view mark = std::string_view(bytes).starts_with("\xEF\xBB\xBF") ? "\xEF\xBB\xBF" : "";
  Require(bytes == std::string(mark) + text, "another text than the file's");
  return 0;
}

}  // namespace headscope::capture

#ifdef HEADSCOPE_FUZZ_PROMPT_FILE
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headscope::capture::FuzzPromptFile(data, size);
  return 0;
}
#endif
