// SPDX-License-Identifier: Apache-2.0
// Names of files that are being written beside their targets, and the removal of those whose writer is gone.
//
// A process that is killed cannot take its file along. So a name says who writes: the machine (with its name space of
// processes, as containers have their own), the process and when it started, since numbers of processes come again.
#pragma once

#include <filesystem>
#include <string>

namespace headscope::app {

// ".partial-MACHINE-PROCESS-START-N.EXT" in `folder`, which nothing has yet: as short as any, so that every name that
// the target may have leaves room for it. Throws std::filesystem::filesystem_error where the folder cannot be looked
// into.
std::filesystem::path FreePartialName(const std::filesystem::path& folder, const std::string& extension);

// Removes the files of such names in `folder` that were written by processes of this machine which run no more.
void RemoveLeftovers(const std::filesystem::path& folder);

}  // namespace headscope::app
