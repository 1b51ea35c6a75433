// SPDX-License-Identifier: Apache-2.0
// HDF5's types, as a table of contents names them.
#pragma once

#include "trace/contents.h"
#include "trace/hdf5_handle.h"

namespace headscope::data {

StoredType DescribeType(hid_t type);

}  // namespace headscope::data
