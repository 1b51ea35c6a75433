// SPDX-License-Identifier: Apache-2.0
// From data's index files to kernels' SparseIndex.
#pragma once

#include <string>

#include "data/index_file.h"
#include "kernels/sparse_index.h"

namespace headscope::app {

// The index that the file of that path holds. Throws BadInputError when it is not valid.
kernels::SparseIndex IndexOf(const std::string& path, const data::IndexFile& file);

}  // namespace headscope::app
