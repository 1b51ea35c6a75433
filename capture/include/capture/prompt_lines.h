// SPDX-License-Identifier: Apache-2.0
// A file of prompts, a JSON object a line: {"text": ".."} or {"tokens": [..]}, and a "name" for its trace. Untrusted:
// memory follows its size, and nothing in it names a file to open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::capture {

struct PromptLine {
  int64_t line = 0;  // from 1 on
  std::string name;  // of letters, digits, '-', '_' and '.', and of no other line; "prompt-LINE" where none is given
  std::optional<std::string> text;  // or
  std::vector<int32_t> tokens;
};

// Empty lines are passed over. Throws BadInputError that names the file and the line.
std::vector<PromptLine> ParsePromptLines(std::string_view text, const std::string& file);

}  // namespace headscope::capture
