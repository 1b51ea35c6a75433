// SPDX-License-Identifier: Apache-2.0
#include "data/untrusted_text.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "data/shallow_json.h"

namespace headscope::data {
std::string ReadUntrustedText(const std::string& path, const std::string& remedy) {
  const auto refuse = [&](const std::string& problem) {
    throw BadInputError({.file = path, .problem = problem, .remedy = remedy});
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("cannot be opened");
  std::string text;
  std::array<char, 1 << 16> block{};
  while (file.read(block.data(), block.size()) || file.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(file.gcount()));
    if (text.size() > kMostTextBytes) refuse("is larger than " + std::to_string(kMostTextBytes >> 20) + " MiB");
  }
  if (file.bad()) refuse("cannot be read");
  return text;
}

nlohmann::json ReadUntrustedJson(const std::string& path, const std::string& remedy) {
  std::optional<std::string> twice;
  std::optional<nlohmann::json> json = ParseShallowJson<nlohmann::json>(ReadUntrustedText(path, remedy), &twice);
  if (twice) {
    throw BadInputError({.file = path,
                         .field = Quoted(*twice),
                         .problem = "the name appears twice in one object",
                         .remedy = "write it once"});
  }
  if (!json) {
    throw BadInputError({.file = path,
                         .problem = "is nested more than " + std::to_string(kMostJsonDepth) + " levels deep",
                         .remedy = remedy});
  }
  return *std::move(json);
}

}  // namespace headscope::data
