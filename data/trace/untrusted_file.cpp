#include "trace/untrusted_file.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "trace/hdf5_values.h"
#include "trace/private_driver.h"

namespace headscope::data {
namespace {

constexpr int64_t kMaxChunkBytes = int64_t{16} << 20;
constexpr int64_t kHugeExtent = int64_t{4} << 30;
constexpr int64_t kHugeRatio = 1000;
constexpr hsize_t kMaxMembers = 256;

// Our files start with the HDF5 signature and version 3 of the superblock, the one that headscope writes. Older
// versions have parts of HDF5's parser behind them that are known to crash on hostile files, so they are refused before
// HDF5 sees them.
//
// Returns what messages tell of the superblock, which HDF5 checks itself; zeros where it is cut or of another layout.
struct Superblock {
  bool open_for_writing = false;  // a writer is at work or was killed
  int64_t end_of_file = 0;        // bytes, when the file was last flushed or closed
};
Superblock RequireSignature(const std::string& path, int64_t size, const UntrustedFileKind& kind) {
  constexpr std::array<unsigned char, 9> kExpected = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n', 3};
  constexpr size_t kWidthOfAddresses = 9, kConsistencyFlags = 11, kEndOfFile = 28, kSuperblockBytes = 36;
  std::array<unsigned char, kSuperblockBytes> bytes{};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) {
    throw BadTraceError(path + ": cannot be opened (" + std::strerror(errno) + "); check the name and the permissions");
  }
  const size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get());
  if (got < kExpected.size() || std::memcmp(bytes.data(), kExpected.data(), 8) != 0) {
    throw BadTraceError(path + ": is not an HDF5 file (" + std::to_string(size) + " bytes); " + kind.not_one);
  }
  if (bytes[8] != kExpected[8]) {
    throw BadTraceError(path + ": superblock version " + std::to_string(bytes[8]) + ": " + kind.noun +
                        " has version 3; " + kind.not_one);
  }
  if (got < bytes.size() || bytes[kWidthOfAddresses] != 8) return {};
  uint64_t end = 0;
  for (size_t i = kSuperblockBytes; i-- > kEndOfFile;) end = end << 8 | bytes[i];
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return {(bytes[kConsistencyFlags] & 1) != 0, end > kMost ? 0 : static_cast<int64_t>(end)};
}

// The reason of a failure goes to `reason` here, because closing the access properties makes HDF5 forget it.
FileHandle Open(const std::string& path, unsigned flags, std::string* reason) {
  const PropertyHandle access = PrivateReadAccess();
  FileHandle file(H5Fopen(path.c_str(), flags, access.get()));
  if (!file.valid()) *reason = Hdf5Reason();
  return file;
}

herr_t RefuseLinks(hid_t, const char* name, const H5L_info_t* info, void* out) {
  if (info->type == H5L_TYPE_HARD) {
    return 0;
  }
  *static_cast<std::string*>(out) = name;
  return 1;
}

std::string Join(const std::string& group, const std::string& name) {
  return group.empty() ? "/" + name : "/" + group + "/" + name;
}

}  // namespace

UntrustedFile::UntrustedFile(const std::string& path, const UntrustedFileKind& kind) : kind_(kind), path_(path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    throw BadTraceError(path + ": cannot be opened (" + std::strerror(errno) + "); check the name");
  }
  if (!S_ISREG(status.st_mode)) {
    throw BadTraceError(path + ": is not a regular file; " + kind_.not_one);
  }
  size_ = status.st_size;
  const Superblock superblock = RequireSignature(path, size_, kind_);
  declared_size_ = superblock.end_of_file;
  std::string reason, reason_streaming;
  file_ = Open(path, H5F_ACC_RDONLY, &reason);
  if (!file_.valid()) {
    // A file that is being written, or whose writer was killed, says so in its header and opens only like this. Nothing
    // in it is changed.
    file_ = Open(path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, &reason_streaming);
    streaming_ = true;
  }
  if (!file_.valid()) {
    // The open that does not suit the file fails for that alone.
    throw BadTraceError(path + ": " + Unreadable(superblock.open_for_writing ? reason_streaming : reason));
  }
}

std::string UntrustedFile::Unreadable(const std::string& reason) const {
  if (size_ < declared_size_) {
    return "holds " + std::to_string(size_) + " bytes of " + std::to_string(declared_size_) +
           ": it was cut short, as by a copy or a download that ended early; copy the whole file again";
  }
  return "cannot be read as HDF5 (" + reason + "); " + kind_.damaged;
}

void UntrustedFile::Refuse(const std::string& field, const std::string& problem) const {
  throw BadTraceError(path_ + ": " + field + ": " + problem);
}

void UntrustedFile::RefuseUnread(const std::string& field) const {
  const std::string reason = Hdf5Reason();
  if (size_ < declared_size_) throw BadTraceError(path_ + ": " + Unreadable(reason));
  Refuse(field, "cannot be read (" + reason + "); " + kind_.damaged);
}

GroupHandle UntrustedFile::Group(const std::string& name) const {
  const std::string field = "/" + name;
  if (!name.empty()) {
    if (H5Lexists(file_.get(), name.c_str(), H5P_DEFAULT) <= 0) {
      Refuse(field, std::string("is missing; ") + kind_.not_one);
    }
    H5L_info_t link{};
    if (H5Lget_info(file_.get(), name.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) {
      Refuse(field, std::string("is a link to somewhere else, which ") + kind_.noun + " never has; " + kind_.damaged);
    }
  }
  GroupHandle group(H5Gopen2(file_.get(), field.c_str(), H5P_DEFAULT));
  if (!group.valid()) {
    Refuse(field, std::string("is not a readable group; ") + kind_.damaged);
  }
  H5G_info_t info{};
  if (H5Gget_info(group.get(), &info) < 0 || info.nlinks > kMaxMembers) {
    Refuse(field, std::string("has an unreadable or absurd number of members; ") + kind_.damaged);
  }
  std::string foreign;
  if (H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, RefuseLinks, &foreign) != 0) {
    Refuse(field, "member \"" + foreign + "\" is a soft or external link, which " + kind_.noun + " never has; " +
                      kind_.damaged);
  }
  return group;
}

CheckedDataset UntrustedFile::Dataset(const GroupHandle& group, const std::string& group_name, const std::string& name,
                                      hid_t type, int rank, size_t axis) const {
  CheckedDataset checked;
  checked.name = Join(group_name, name);
  const auto refuse = [&](const std::string& problem) { Refuse(checked.name, problem + "; " + kind_.damaged); };
  if (H5Lexists(group.get(), name.c_str(), H5P_DEFAULT) <= 0) {
    refuse("is missing");
  }
  H5L_info_t link{};
  if (H5Lget_info(group.get(), name.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) {
    refuse(std::string("is a link to somewhere else, which ") + kind_.noun + " never has");
  }
  PropertyHandle access(Require(H5Pcreate(H5P_DATASET_ACCESS), "creating properties"));
  Require(H5Pset_chunk_cache(access.get(), 521, size_t{8} << 20, 0.75), "setting the chunk cache");
  checked.handle = DatasetHandle(H5Dopen2(group.get(), name.c_str(), access.get()));
  if (!checked.handle.valid()) {
    refuse("is not a readable dataset");
  }

  const TypeHandle found(H5Dget_type(checked.handle.get()));
  if (!found.valid() || !SameType(found.get(), type)) {
    refuse(std::string("has ") + TypeClassName(found.get()) + " that " + kind_.noun + " does not use there");
  }
  const PropertyHandle creation(H5Dget_create_plist(checked.handle.get()));
  if (!creation.valid()) {
    refuse("has an unreadable description");
  }
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(creation.get()) != 0) {
    refuse(std::string("keeps its data in other files, which ") + kind_.noun + " never does");
  }
  const int filters = H5Pget_nfilters(creation.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    size_t values = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config);
    if (filter != H5Z_FILTER_FLETCHER32) {
      refuse("uses filter " + std::to_string(filter) + "; " + kind_.noun + " only uses the checksum (filter 3)");
    }
  }

  const SpaceHandle space(H5Dget_space(checked.handle.get()));
  if (!space.valid() || H5Sget_simple_extent_ndims(space.get()) != rank) {
    refuse("has " + std::to_string(space.valid() ? H5Sget_simple_extent_ndims(space.get()) : -1) +
           " dimensions instead of " + std::to_string(rank));
  }
  std::vector<hsize_t> extents(static_cast<size_t>(rank)), chunk(static_cast<size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  __extension__ using Wide = unsigned __int128;  // a product of hostile extents overflows 64 bits
  Wide bytes = H5Tget_size(type);
  bool empty = false;
  for (const hsize_t extent : extents) {
    if (extent > static_cast<hsize_t>(std::numeric_limits<int64_t>::max() / 2)) {
      refuse("declares an extent of " + std::to_string(extent));
    }
    empty = empty || extent == 0;
    bytes =
        std::min<Wide>(bytes * std::max<hsize_t>(extent, 1), static_cast<Wide>(std::numeric_limits<int64_t>::max()));
    checked.extents.push_back(static_cast<int64_t>(extent));
  }
  if (!empty && bytes > static_cast<Wide>(kHugeExtent) && bytes / kHugeRatio > static_cast<Wide>(size_)) {
    refuse("declares " + std::to_string(static_cast<int64_t>(bytes)) + " bytes in a file of " + std::to_string(size_));
  }
  if (layout == H5D_CHUNKED) {
    if (H5Pget_chunk(creation.get(), rank, chunk.data()) != rank) {
      refuse("has an unreadable chunk size");
    }
    Wide chunk_bytes = H5Tget_size(type);
    for (const hsize_t items : chunk) {
      chunk_bytes = std::min<Wide>(chunk_bytes * items, static_cast<Wide>(std::numeric_limits<int64_t>::max()));
    }
    if (chunk_bytes > static_cast<Wide>(kMaxChunkBytes)) {
      refuse("has chunks of " + std::to_string(static_cast<int64_t>(chunk_bytes)) + " bytes");
    }
    checked.chunk_items = static_cast<int64_t>(chunk[axis]);
  } else if (!empty && bytes > static_cast<Wide>(size_)) {
    refuse("declares " + std::to_string(static_cast<int64_t>(bytes)) + " bytes in a file of " + std::to_string(size_));
  }
  return checked;
}

void UntrustedFile::ReadAll(const CheckedDataset& dataset, hid_t memory_type, int64_t count, void* out) const {
  if (count == 0) {
    return;
  }
  const hsize_t begin = 0, length = static_cast<hsize_t>(count);
  const SpaceHandle file_space(H5Dget_space(dataset.handle.get()));
  const SpaceHandle memory_space(H5Screate_simple(1, &length, nullptr));
  if (dataset.extents.size() == 1 &&
      H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, &begin, nullptr, &length, nullptr) < 0) {
    Refuse(dataset.name, std::string("is too short; ") + kind_.damaged);
  }
  // An open chunk at the end may be in the middle of being rewritten, which leaves its first items alone but not its
  // checksum.
  const PropertyHandle transfer(Require(H5Pcreate(H5P_DATASET_XFER), "creating properties"));
  if (streaming_) {
    Require(H5Pset_edc_check(transfer.get(), H5Z_DISABLE_EDC), "setting the checksum");
  }
  if (H5Dread(dataset.handle.get(), memory_type, memory_space.get(), file_space.get(), transfer.get(), out) < 0) {
    RefuseUnread(dataset.name);
  }
}

std::string UntrustedFile::TextDataset(const GroupHandle& group, const std::string& group_name, const std::string& name,
                                       int64_t max_bytes) const {
  const std::string field = Join(group_name, name);
  // The length of the text is part of its type, so the type is looked at first and then asked for.
  TypeHandle type;
  {
    H5L_info_t link{};
    if (H5Lget_info(group.get(), name.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) {
      Refuse(field, std::string("is missing or a link; ") + kind_.damaged);
    }
    const DatasetHandle dataset(H5Dopen2(group.get(), name.c_str(), H5P_DEFAULT));
    type = TypeHandle(dataset.valid() ? H5Dget_type(dataset.get()) : H5I_INVALID_HID);
  }
  if (!type.valid() || H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0) {
    Refuse(field, std::string("is not a fixed-length string; ") + kind_.damaged);
  }
  const auto bytes = static_cast<int64_t>(H5Tget_size(type.get()));
  if (bytes > max_bytes || bytes > size_) {
    Refuse(field, "has " + std::to_string(bytes) + " bytes in a file of " + std::to_string(size_) + ", at most " +
                      std::to_string(max_bytes) + " are allowed; " + kind_.damaged);
  }
  const CheckedDataset dataset = Dataset(group, group_name, name, type.get(), 0, 0);
  std::string text(static_cast<size_t>(bytes), '\0');
  if (H5Dread(dataset.handle.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0) {
    RefuseUnread(field);
  }
  text.resize(std::strlen(text.c_str()));
  return text;
}

}  // namespace headscope::data
