// SPDX-License-Identifier: Apache-2.0
#include "support/output_folder.h"

#include <ranges>
#include <system_error>

#include "base/errors.h"

namespace headscope::app {
namespace fs = std::filesystem;

OutputFolder::OutputFolder(const std::string& option, const std::string& path) {
  std::error_code error;
  fs::path folder;
  for (const fs::path& part : fs::path(path)) {
    folder /= part;
    // False without an error where there is such a folder already.
    if (fs::create_directory(folder, error)) made_.push_back(folder);
    if (error) break;
  }
  if (!error && fs::is_directory(path, error)) return;
  if (!error) error = std::make_error_code(std::errc::not_a_directory);
  RemoveEmpty();
  throw UsageError(
      {.field = option, .value = path, .problem = error.message(), .remedy = "name a folder that can be created"});
}

OutputFolder::~OutputFolder() {
  RemoveEmpty();
}

void OutputFolder::RemoveEmpty() {
  for (const fs::path& folder : made_ | std::views::reverse) {
    std::error_code error;
    if (!fs::remove(folder, error)) return;  // it holds something, and so do those above it
  }
}

}  // namespace headscope::app
