// SPDX-License-Identifier: Apache-2.0
#include "base/program_files.h"

#include <system_error>

namespace headscope {

namespace fs = std::filesystem;

fs::path ProgramFolder() {
  std::error_code unreadable;
  return fs::read_symlink("/proc/self/exe", unreadable).parent_path();
}

bool IsInstalled() {
  std::error_code unreadable;
  return fs::is_directory(InstalledLibraryFolder(), unreadable);
}

fs::path InstalledLibraryFolder() {
  return (ProgramFolder() / HEADSCOPE_LIBRARY_FROM_PROGRAM).lexically_normal();
}

fs::path InstalledShareFolder() {
  return (ProgramFolder() / HEADSCOPE_SHARE_FROM_PROGRAM).lexically_normal();
}

}  // namespace headscope
