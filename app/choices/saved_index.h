// SPDX-License-Identifier: Apache-2.0
// Between data's index files and kernels' SparseIndex.
#pragma once

#include <string>

#include "data/index_file.h"
#include "kernels/sparse_index.h"

namespace headscope::app {

// The index that the file of that path holds. Throws BadInputError when it is not valid.
kernels::SparseIndex IndexOf(const std::string& path, const data::IndexFile& file);

// The other way: rows, keys and element rule of the index, and its lists behind those that the file has.
void SetIndexShape(const kernels::SparseIndex& index, data::IndexFile* file);
void AppendIndexLists(const kernels::SparseIndex& index, data::IndexFile* file);

// As data::WriteIndexFile or, to .json, the same numbers under the same names for programs without HDF5
// (`headscope-index` is the member `format`), which data::ReadMaskJson reads. Throws FailedError, also for JSON that
// would be too long to be read again.
void WriteIndex(const data::IndexFile& file, const std::string& path, bool force);

}  // namespace headscope::app
