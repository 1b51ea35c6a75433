// SPDX-License-Identifier: Apache-2.0
#include "contents/descriptor_driver.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace headscope::data {
namespace {

constexpr haddr_t kMaxAddress = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

int file_descriptor = -1;
DataReads reads;

// HDF5 keeps its own fields in the base and passes it back to every function.
struct OpenedFile : H5FD_t {
  haddr_t end_of_allocation = 0;
  haddr_t end_of_file = 0;
};

OpenedFile* Opened(H5FD_t* file) {
  return static_cast<OpenedFile*>(file);
}
const OpenedFile* Opened(const H5FD_t* file) {
  return static_cast<const OpenedFile*>(file);
}

H5FD_t* OpenFile(const char*, unsigned flags, hid_t, haddr_t) {
  struct stat status {};
  if ((flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0 || fstat(file_descriptor, &status) != 0) {
    return nullptr;
  }
  auto* file = new OpenedFile{};
  file->end_of_file = static_cast<haddr_t>(status.st_size);
  return file;
}

herr_t CloseFile(H5FD_t* file) {
  delete Opened(file);
  return 0;
}

// No accumulating and no sieving: HDF5's own buffers between the driver and its caches are one more place for a crafted
// file to hit.
herr_t Query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = H5FD_FEAT_SUPPORTS_SWMR_IO;
  return 0;
}

haddr_t EndOfAllocation(const H5FD_t* file, H5FD_mem_t) {
  return Opened(file)->end_of_allocation;
}

herr_t SetEndOfAllocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  Opened(file)->end_of_allocation = address;
  return 0;
}

haddr_t EndOfFile(const H5FD_t* file, H5FD_mem_t) {
  return Opened(file)->end_of_file;
}

// Metadata beyond the end of the file reads as zeros, as HDF5 expects of its drivers; its checksums find out.
herr_t ReadFile(H5FD_t*, H5FD_mem_t type, hid_t, haddr_t address, size_t size, void* buffer) {
  if (type == H5FD_MEM_DRAW) {
    reads = {reads.count + 1, address, size};
    return 0;
  }
  if (address > kMaxAddress || size > kMaxAddress - address) return -1;
  auto* out = static_cast<char*>(buffer);
  auto at = static_cast<off_t>(address);
  while (size > 0) {
    const ssize_t got = pread(file_descriptor, out, size, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) {
      std::memset(out, 0, size);
      return 0;
    }
    out += got;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return 0;
}

herr_t RefuseWrite(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) {
  return -1;
}

hid_t Register() {
  static H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(511);  // the range below 512 is free for testing and local use
#endif
  driver.name = "headscope_descriptor";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.open = OpenFile;
  driver.close = CloseFile;
  driver.query = Query;
  driver.get_eoa = EndOfAllocation;
  driver.set_eoa = SetEndOfAllocation;
  driver.get_eof = EndOfFile;
  driver.read = ReadFile;
  driver.write = RefuseWrite;
  std::fill(std::begin(driver.fl_map), std::end(driver.fl_map), H5FD_MEM_SUPER);
  return Require(H5FDregister(&driver), "registering the file driver");
}

}  // namespace

PropertyHandle DescriptorAccess(int descriptor) {
  static const hid_t driver = Register();
  file_descriptor = descriptor;
  PropertyHandle access(Require(H5Pcreate(H5P_FILE_ACCESS), "creating properties"));
  Require(H5Pset_driver(access.get(), driver, nullptr), "choosing the file driver");
  // Beside a living writer, HDF5 reads metadata again when its checksum is wrong, and doubles the pause each time, from
  // a nanosecond. The default of 100 attempts would never end on a damaged file; after 20 it has waited a millisecond,
  // ages for a write of a few hundred bytes.
  Require(H5Pset_metadata_read_attempts(access.get(), 20), "limiting the read attempts");
  return access;
}

void ForgetDataReads() {
  reads = {};
}

DataReads LastDataReads() {
  return reads;
}

}  // namespace headscope::data
