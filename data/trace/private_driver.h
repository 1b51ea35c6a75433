// A read-only HDF5 file driver under which every open is a file of its own.
//
// HDF5 merges all opens of one file by one process into one state, caches included: a second reader would not see what
// a writer has added since the first one opened, and a reader beside a writer of the same process would see unflushed
// data (and after a failed write nothing at all). Under this driver a reader sees exactly what is on disk when it
// opens, as a reader in another process would. It never locks, never writes, and reads the one file it was given.
#pragma once

#include "trace/hdf5_handle.h"

namespace headscope::data {

// Access properties that choose the driver.
PropertyHandle PrivateReadAccess();

}  // namespace headscope::data
