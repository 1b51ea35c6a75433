// SPDX-License-Identifier: Apache-2.0
// What the room's own HDF5 file drivers have in common: where a file ends, reading, and what HDF5 is told of a driver.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>

#include "trace/hdf5_handle.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace headscope::data {

inline constexpr haddr_t kLastOffset = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

// HDF5 keeps its own fields in the base and passes it back to every function.
struct DriverFile : H5FD_t {
  int descriptor = -1;
  haddr_t end_of_allocation = 0;
  haddr_t end_of_file = 0;
};

inline bool FitsFile(haddr_t address, size_t size) {
  return address <= kLastOffset && size <= kLastOffset - address;
}

// What lies behind the end reads as zeros, as HDF5 expects of its drivers. False: errno says why.
inline bool ReadAt(int descriptor, haddr_t address, size_t size, void* buffer) {
  if (!FitsFile(address, size)) {
    errno = EOVERFLOW;
    return false;
  }
  auto* out = static_cast<char*>(buffer);
  for (size_t done = 0; done < size;) {
    const ssize_t got = pread(descriptor, out + done, size - done, static_cast<off_t>(address + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) {
      std::memset(out + done, 0, size - done);
      break;
    }
    done += static_cast<size_t>(got);
  }
  return true;
}

// By which HDF5 tells drivers apart: the range below 512 is free for testing and local use.
enum class DriverNumber { kChunks = 510, kDescriptor = 511 };

// A driver of DriverFiles as far as all of them are alike.
inline H5FD_class_t DriverClass(const char* name, [[maybe_unused]] DriverNumber number) {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(number);
#endif
  driver.name = name;
  driver.maxaddr = kLastOffset;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.get_eoa = [](const H5FD_t* file, H5FD_mem_t) {
    return static_cast<const DriverFile*>(file)->end_of_allocation;
  };
  driver.set_eoa = [](H5FD_t* file, H5FD_mem_t, haddr_t address) -> herr_t {
    static_cast<DriverFile*>(file)->end_of_allocation = address;
    return 0;
  };
  driver.get_eof = [](const H5FD_t* file, H5FD_mem_t) { return static_cast<const DriverFile*>(file)->end_of_file; };
  return driver;
}

}  // namespace headscope::data
