// SPDX-License-Identifier: Apache-2.0
// What libhdf5 can tell of a file, as a table of contents.
#pragma once

#include <cstdint>

#include "trace/contents.h"

namespace headscope::data {

// Prepares libhdf5, before the process gives its rights up; the file is not touched.
void PrepareHdf5();

// Describes the file behind `descriptor`, which takes `stored_bytes` bytes on the disk. Never throws for what the file
// holds; a file that HDF5 does not open has the reason in Contents::failure.
Contents DescribeFile(int descriptor, uint64_t stored_bytes);

}  // namespace headscope::data
