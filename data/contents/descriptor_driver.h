// SPDX-License-Identifier: Apache-2.0
// A read-only HDF5 file driver for the one file that this process was given as an open descriptor.
//
// It reads metadata, each piece by a call of its own, and never data: where HDF5 wants to read data, the driver notes
// place and size and says that it was done. That is how the places of chunks are found, one index lookup per chunk;
// H5Dget_chunk_info walks the whole index for every chunk in HDF5 1.10. The global heap counts as data there, so what
// lies in it (values of variable length, the sources of virtual datasets) cannot be read either.
#pragma once

#include "trace/hdf5_handle.h"

namespace headscope::data {

// Where HDF5 wanted to read data since the last call of ForgetDataReads.
struct DataReads {
  int count = 0;
  haddr_t address = HADDR_UNDEF;  // of the last one
  size_t bytes = 0;
};

// Access properties that choose the driver; every open reads `descriptor`, whatever name it is given.
PropertyHandle DescriptorAccess(int descriptor);
void ForgetDataReads();
DataReads LastDataReads();

}  // namespace headscope::data
