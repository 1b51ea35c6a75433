// SPDX-License-Identifier: Apache-2.0
#include "prompt_lines_fuzz.h"

#include <set>
#include <string>

#include "base/errors.h"
#include "capture/prompt_lines.h"
#include "support/require.h"

namespace headscope::capture {
namespace {

using testing::Require;
using testing::RequireOneSentence;

}  // namespace

int FuzzPromptLines(const uint8_t* data, size_t size) {
  std::vector<PromptLine> lines;
  try {
    lines = ParsePromptLines({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const BadInputError& error) {
    RequireOneSentence(error.what());
    return 1;
  }
  std::set<std::string> names;
  Require(!lines.empty(), "no prompt");
  for (const PromptLine& line : lines) {
    Require(line.text.has_value() == line.tokens.empty(), "a text or tokens");
    Require(!line.text || !line.text->empty(), "a text without a character");
    Require(line.name.find('/') == std::string::npos && line.name.front() != '.', "a name that leads elsewhere");
    Require(names.insert(line.name).second, "a name twice");
  }
  return 0;
}

}  // namespace headscope::capture

#ifdef HEADSCOPE_FUZZ_PROMPT_LINES
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headscope::capture::FuzzPromptLines(data, size);
  return 0;
}
#endif
