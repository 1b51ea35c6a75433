// SPDX-License-Identifier: Apache-2.0
// Where the files that belong to the running program lie.
//
// Installed, they lie at fixed places relative to the program, so the whole tree may be moved: the helper program and
// LibTorch's half in ../lib/headscope, model, prompts and the shipped trace in ../share/headscope (the names that
// CMake's GNUInstallDirs gave these folders). In a build folder the first two lie beside the program.
#pragma once

#include <filesystem>

namespace headscope {

// The folder of the running program; empty where /proc cannot be read.
std::filesystem::path ProgramFolder();

// Whether the running program is an installed one, that is, has a library folder beside its own.
bool IsInstalled();

std::filesystem::path InstalledLibraryFolder();
std::filesystem::path InstalledShareFolder();

}  // namespace headscope
