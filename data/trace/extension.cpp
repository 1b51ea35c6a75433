// SPDX-License-Identifier: Apache-2.0
#include "data/extension.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace headscope::data {

std::string Extension(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  if (!extension.empty()) extension.erase(0, 1);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

}  // namespace headscope::data
