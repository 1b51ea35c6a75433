// SPDX-License-Identifier: Apache-2.0
// The numbers of an index file as JSON, as `headscope compare --save-index` writes them for programs without HDF5:
// docs/bench.md has the format.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/index_file.h"

namespace headscope::data {

// Whether a document says that it is an index.
bool IsIndexJson(const nlohmann::json& json);

// Of such a document, which `path` held. Throws BadInputError naming file, field and remedy.
IndexFile IndexOfJson(const std::string& path, const nlohmann::json& json);

}  // namespace headscope::data
