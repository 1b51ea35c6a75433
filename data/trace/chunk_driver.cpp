// SPDX-License-Identifier: Apache-2.0
#include "trace/chunk_driver.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "trace/file_driver.h"

namespace headscope::data {

namespace {

struct WrittenFile : DriverFile {
  struct stat identity {};
};

WrittenFile* Written(H5FD_t* file) {
  return static_cast<WrittenFile*>(file);
}
const WrittenFile* Written(const H5FD_t* file) {
  return static_cast<const WrittenFile*>(file);
}

// Writes all of the pieces, one behind the other from `place` on, and uses them up. False: errno says why.
bool WriteAll(int descriptor, std::span<iovec> pieces, off_t place) {
  while (!pieces.empty()) {
    const ssize_t written = pwritev(descriptor, pieces.data(), static_cast<int>(pieces.size()), place);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    place += written;
    for (auto left = static_cast<size_t>(written); !pieces.empty(); pieces = pieces.subspan(1)) {
      iovec& piece = pieces.front();
      const size_t taken = std::min(left, piece.iov_len);
      piece.iov_base = static_cast<char*>(piece.iov_base) + taken;
      piece.iov_len -= taken;
      left -= taken;
      if (piece.iov_len > 0) break;
    }
  }
  return true;
}

// Reports errno in the words in which HDF5's own driver does, which Hdf5Reason finds.
herr_t FailedCall(hid_t kind) {
  H5Epush2(H5E_DEFAULT, __FILE__, "chunk driver", __LINE__, H5E_ERR_CLS, H5E_IO, kind, "error message = '%s'",
           std::strerror(errno));
  return -1;
}

}  // namespace

// As HDF5's own driver of this system, but for Write. Where HDF5 asks for anything else to be done to the file while a
// chunk waits, the chunk is written first.
struct ChunkDriver {
  static H5FD_t* Open(const char* name, unsigned flags, hid_t, haddr_t) {
    int how = O_CLOEXEC | ((flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY);
    if ((flags & H5F_ACC_TRUNC) != 0) how |= O_TRUNC;
    if ((flags & H5F_ACC_CREAT) != 0) how |= O_CREAT;
    if ((flags & H5F_ACC_EXCL) != 0) how |= O_EXCL;
    const int descriptor = open(name, how, 0666);
    if (descriptor < 0) {
      FailedCall(H5E_CANTOPENFILE);
      return nullptr;
    }
    auto* file = new WrittenFile{};
    file->descriptor = descriptor;
    if (fstat(descriptor, &file->identity) != 0) {
      FailedCall(H5E_BADFILE);
      Close(file);
      return nullptr;
    }
    file->end_of_file = static_cast<haddr_t>(file->identity.st_size);
    return file;
  }

  static herr_t Close(H5FD_t* file) {
    const int closed = close(Written(file)->descriptor);
    delete Written(file);
    return closed == 0 ? 0 : FailedCall(H5E_CANTCLOSEFILE);
  }

  // Two openings of one file are one file to HDF5.
  static int Compare(const H5FD_t* a, const H5FD_t* b) {
    const struct stat &one = Written(a)->identity, &other = Written(b)->identity;
    const auto key = [](const struct stat& of) { return std::pair(of.st_dev, of.st_ino); };
    return key(one) < key(other) ? -1 : key(other) < key(one) ? 1 : 0;
  }

  static herr_t Query(const H5FD_t*, unsigned long* flags) {
    if (flags != nullptr) {
      *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
               H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_POSIX_COMPAT_HANDLE | H5FD_FEAT_SUPPORTS_SWMR_IO;
    }
    return 0;
  }

  static herr_t Handle(H5FD_t* file, hid_t, void** handle) {
    *handle = &Written(file)->descriptor;
    return 0;
  }

  // The chunk that HDF5 is asked about, under Hdf5Lock.
  static StoredChunk*& Asked() {
    static StoredChunk* chunk = nullptr;
    return chunk;
  }

  // `hand_over` may throw: nobody may find the chunk when it is gone.
  template <typename HandOver>
  static herr_t AskFor(StoredChunk* chunk, const HandOver& hand_over) {
    struct Question {
      ~Question() { Asked() = nullptr; }
    } const question;
    Asked() = chunk;
    return hand_over();
  }

  static bool WriteAsked(const H5FD_t* file) {
    StoredChunk* chunk = Asked();
    const bool waits = chunk != nullptr && !chunk->written_ && chunk->descriptor_ == Written(file)->descriptor;
    return !waits || chunk->WriteNow();
  }

  static herr_t Read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
    const bool done = WriteAsked(file) && ReadAt(Written(file)->descriptor, address, size, buffer);
    return done ? 0 : FailedCall(H5E_READERROR);
  }

  static herr_t Write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* buffer) {
    WrittenFile& written = *Written(file);
    errno = EFBIG;
    if (!FitsFile(address, size)) return FailedCall(H5E_WRITEERROR);
    StoredChunk* chunk = Asked();
    if (chunk != nullptr && chunk->values_ == buffer && chunk->size() == size) {
      chunk->descriptor_ = written.descriptor;
      chunk->place_ = static_cast<off_t>(address);
      chunk->is_behind_end_ = address >= written.end_of_file;
      chunk->written_ = false;
    } else {
      if (!WriteAsked(file)) return FailedCall(H5E_WRITEERROR);
      iovec all[] = {{const_cast<void*>(buffer), size}};  // written and not changed
      if (!WriteAll(written.descriptor, all, static_cast<off_t>(address))) return FailedCall(H5E_WRITEERROR);
    }
    written.end_of_file = std::max<haddr_t>(written.end_of_file, address + size);
    return 0;
  }

  static herr_t Flush(H5FD_t* file, hid_t, hbool_t) { return WriteAsked(file) ? 0 : FailedCall(H5E_WRITEERROR); }

  static herr_t Truncate(H5FD_t* file, hid_t, hbool_t) {
    WrittenFile& written = *Written(file);
    if (!WriteAsked(file)) return FailedCall(H5E_WRITEERROR);
    if (written.end_of_allocation == written.end_of_file) return 0;
    if (ftruncate(written.descriptor, static_cast<off_t>(written.end_of_allocation)) != 0)
      return FailedCall(H5E_SEEKERROR);
    written.end_of_file = written.end_of_allocation;
    return 0;
  }

  // A file system without locks has none to hold.
  static herr_t Lock(H5FD_t* file, hbool_t writes) {
    const int how = (writes != 0 ? LOCK_EX : LOCK_SH) | LOCK_NB;
    return flock(Written(file)->descriptor, how) == 0 || errno == ENOSYS ? 0 : FailedCall(H5E_BADFILE);
  }
  static herr_t Unlock(H5FD_t* file) {
    return flock(Written(file)->descriptor, LOCK_UN) == 0 || errno == ENOSYS ? 0 : FailedCall(H5E_BADFILE);
  }

  static hid_t Register() {
    static H5FD_class_t driver = DriverClass("headscope_chunks", DriverNumber::kChunks);
    driver.open = Open;
    driver.close = Close;
    driver.cmp = Compare;
    driver.query = Query;
    driver.get_handle = Handle;
    driver.read = Read;
    driver.write = Write;
    driver.flush = Flush;
    driver.truncate = Truncate;
    driver.lock = Lock;
    driver.unlock = Unlock;
    constexpr H5FD_mem_t kMap[] = H5FD_FLMAP_DICHOTOMY;  // free space of data and of metadata apart
    std::copy(std::begin(kMap), std::end(kMap), std::begin(driver.fl_map));
    return Require(H5FDregister(&driver), "registering the file driver");
  }
};

void UseChunkDriver(hid_t access) {
  static const hid_t driver = ChunkDriver::Register();
  Require(H5Pset_driver(access, driver, nullptr), "choosing the file driver");
}

StoredChunk::StoredChunk(const void* values, size_t used, size_t bytes, const BegunChunk& before)
    : values_(values), used_(used), bytes_(bytes), before_(before) {
  const uint32_t sum = Fletcher32OfBegun(values, used, bytes);
  for (size_t i = 0; i < checksum_.size(); ++i) checksum_[i] = static_cast<char>(sum >> (8 * i));
}

void StoredChunk::FindPlace(const std::function<herr_t(const void*, size_t)>& hand_over, const std::string& action) {
  Require(ChunkDriver::AskFor(this, [&] { return hand_over(values_, size()); }), action);
  if (descriptor_ < 0) throw FailedError({.problem = action + " failed: HDF5 chose no place for a chunk"});
}

void StoredChunk::Write(const std::string& action) {
  if (written_ || WriteNow()) return;
  throw FailedError({.problem = action + " failed: " + std::strerror(errno), .remedy = kRemedyOfDisk});
}

bool StoredChunk::WriteNow() {
  // Written and not changed: what writev takes is not const.
  const auto values = [this](size_t from) {
    return iovec{const_cast<char*>(static_cast<const char*>(values_)) + from, used_ - from};
  };
  const iovec sum{checksum_.data(), checksum_.size()};
  const bool is_there = place_ == before_.place && before_.bytes <= used_;
  // Room that is taken without being written reads as zeros. Where a file system cannot, or has none, they are written.
  if (used_ < bytes_ &&
      (is_there || (is_behind_end_ && fallocate(descriptor_, 0, place_, static_cast<off_t>(size())) == 0))) {
    const size_t from = is_there ? before_.bytes : 0;
    iovec begun[] = {values(from)}, end[] = {sum};
    written_ = WriteAll(descriptor_, begun, place_ + static_cast<off_t>(from)) &&
               WriteAll(descriptor_, end, place_ + static_cast<off_t>(bytes_));
    return written_;
  }
  std::vector<char> zeros(bytes_ - used_);
  iovec all[] = {values(0), {zeros.data(), zeros.size()}, sum};
  written_ = WriteAll(descriptor_, all, place_);
  return written_;
}

}  // namespace headscope::data
