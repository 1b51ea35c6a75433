// SPDX-License-Identifier: Apache-2.0
#include "contents/descriptor_driver.h"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>

#include "trace/file_driver.h"

namespace headscope::data {
namespace {

int file_descriptor = -1;
DataReads reads;

H5FD_t* OpenFile(const char*, unsigned flags, hid_t, haddr_t) {
  struct stat status {};
  if ((flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0 || fstat(file_descriptor, &status) != 0) {
    return nullptr;
  }
  auto* file = new DriverFile{};
  file->descriptor = file_descriptor;
  file->end_of_file = static_cast<haddr_t>(status.st_size);
  return file;
}

herr_t CloseFile(H5FD_t* file) {
  delete static_cast<DriverFile*>(file);
  return 0;
}

// No accumulating and no sieving: HDF5's own buffers between the driver and its caches are one more place for a crafted
// file to hit.
herr_t Query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = H5FD_FEAT_SUPPORTS_SWMR_IO;
  return 0;
}

// Metadata beyond the end of the file reads as zeros; its checksums find out.
herr_t ReadFile(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, size_t size, void* buffer) {
  if (type == H5FD_MEM_DRAW) {
    reads = {reads.count + 1, address, size};
    return 0;
  }
  return ReadAt(static_cast<DriverFile*>(file)->descriptor, address, size, buffer) ? 0 : -1;
}

herr_t RefuseWrite(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) {
  return -1;
}

hid_t Register() {
  static H5FD_class_t driver = DriverClass("headscope_descriptor", DriverNumber::kDescriptor);
  driver.open = OpenFile;
  driver.close = CloseFile;
  driver.query = Query;
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
