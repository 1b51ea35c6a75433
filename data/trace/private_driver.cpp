#include "trace/private_driver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace headscope::data {
namespace {

constexpr haddr_t kMaxAddress = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

// HDF5 keeps its own fields in the base and passes it back to every function.
struct PrivateFile : H5FD_t {
  int descriptor = -1;
  haddr_t end_of_allocation = 0;
  haddr_t end_of_file = 0;
};

PrivateFile* Private(H5FD_t* file) {
  return static_cast<PrivateFile*>(file);
}
const PrivateFile* Private(const H5FD_t* file) {
  return static_cast<const PrivateFile*>(file);
}

H5FD_t* OpenFile(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0) {
    return nullptr;
  }
  const int descriptor = open(name, O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) {
    if (descriptor >= 0) {
      close(descriptor);
    }
    return nullptr;
  }
  auto* file = new PrivateFile{};
  file->descriptor = descriptor;
  file->end_of_file = static_cast<haddr_t>(status.st_size);
  return file;
}

herr_t CloseFile(H5FD_t* file) {
  close(Private(file)->descriptor);
  delete Private(file);
  return 0;
}

// Never equal: this is what keeps the opens apart.
int Compare(const H5FD_t* a, const H5FD_t* b) {
  return a == b ? 0 : std::less<>()(a, b) ? -1 : 1;
}

herr_t Query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) {
    *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_SUPPORTS_SWMR_IO;
  }
  return 0;
}

haddr_t EndOfAllocation(const H5FD_t* file, H5FD_mem_t) {
  return Private(file)->end_of_allocation;
}

herr_t SetEndOfAllocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  Private(file)->end_of_allocation = address;
  return 0;
}

haddr_t EndOfFile(const H5FD_t* file, H5FD_mem_t) {
  return Private(file)->end_of_file;
}

// Metadata beyond the end of the file reads as zeros, as HDF5 expects of its drivers; its checksums find out. A chunk
// of zeros has the checksum zero, though, so data beyond the end (a truncated copy) is an error here.
herr_t ReadFile(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, size_t size, void* buffer) {
  if (address > kMaxAddress || size > kMaxAddress - address) {
    return -1;
  }
  auto* out = static_cast<char*>(buffer);
  auto at = static_cast<off_t>(address);
  while (size > 0) {
    const ssize_t got = pread(Private(file)->descriptor, out, size, at);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 || (got == 0 && type == H5FD_MEM_DRAW)) {
      return -1;
    }
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
  driver.name = "headscope_private";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.open = OpenFile;
  driver.close = CloseFile;
  driver.cmp = Compare;
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

PropertyHandle PrivateReadAccess() {
  static const hid_t driver = Register();
  PropertyHandle access(Require(H5Pcreate(H5P_FILE_ACCESS), "creating properties"));
  Require(H5Pset_driver(access.get(), driver, nullptr), "choosing the file driver");
  // Beside a living writer, HDF5 reads metadata again when its checksum is wrong, and doubles the pause each time, from
  // a nanosecond. The default of 100 attempts would never end on a damaged file; after 20 it has waited a millisecond,
  // ages for a write of a few hundred bytes.
  Require(H5Pset_metadata_read_attempts(access.get(), 20), "limiting the read attempts");
  return access;
}

}  // namespace headscope::data
