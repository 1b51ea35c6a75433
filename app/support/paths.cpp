// SPDX-License-Identifier: Apache-2.0
#include "support/paths.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/program_files.h"

namespace headscope::app {
namespace {

namespace fs = std::filesystem;

// A checkout that was moved has its data at the same place relative to the build folder; a build folder that was moved
// alone still knows where the checkout was.
fs::path ShareDirOfTheBuild() {
  fs::path beside = (ProgramFolder() / HEADSCOPE_SHARE_FROM_BUILD).lexically_normal();
  std::error_code unreadable;
  return fs::is_directory(beside / "reference_model", unreadable) ? beside : fs::path(HEADSCOPE_SHARE_DIR);
}

}  // namespace

std::string ShareDir() {
  const char* named = std::getenv("HEADSCOPE_DATA_DIR");
  if (named != nullptr && *named != '\0') return named;
  return (IsInstalled() ? InstalledShareFolder() : ShareDirOfTheBuild()).string();
}

std::string ReferenceModelDir() {
  return ShareDir() + "/reference_model";
}
std::string ProsePath() {
  return ShareDir() + "/prompts/prose.txt";
}
std::string ShippedTracePath() {
  const fs::path folder = IsInstalled() ? InstalledShareFolder() / "traces" : ProgramFolder() / "shipped";
  return (folder / HEADSCOPE_SHIPPED_TRACE_NAME).string();
}
std::string ModelDirOrShipped(const std::string& model_dir) {
  return model_dir.empty() ? ReferenceModelDir() : model_dir;
}

}  // namespace headscope::app
