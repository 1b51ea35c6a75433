// SPDX-License-Identifier: Apache-2.0
// Configurations that give every head a method of its own, as tune and MInference write them.
#pragma once

#include <map>
#include <string>

#include "analysis/compare.h"
#include "analysis/types/head_statistics.h"

namespace headscope::app {

using HeadSettings = std::map<analysis::HeadId, analysis::AskedMethod>;

// Reads a file of schema headscope-tuning-2 or -1, or MInference's best patterns, whichever it holds. Untrusted: at
// most 64 MB, no deeper than such files are. Throws BadInputError that names the file, the entry and the remedy: no
// such file, neither of the formats, an unknown method or parameter, a value out of range, a head that is there twice.
HeadSettings ReadHeadSettings(const std::string& path);

}  // namespace headscope::app
