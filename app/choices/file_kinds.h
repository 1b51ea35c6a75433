// SPDX-License-Identifier: Apache-2.0
// The kinds of methods that are made of a file: a line each in the list.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "kernels/method.h"
#include "kernels/status.h"

namespace headscope::app {

struct FileKind {
  std::string name;  // as typed before :path=FILE
  std::string help;  // one line
  // Reads the file at `path` and makes a method called `own_name` of it. Errors of what was read; throws BadInputError.
  kernels::Status (*make)(const std::string& own_name, const std::string& path,
                          std::unique_ptr<kernels::PrefillMethod>* made);
};

std::span<const FileKind> FileKinds();

}  // namespace headscope::app
