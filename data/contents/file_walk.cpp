// SPDX-License-Identifier: Apache-2.0
#include "contents/file_walk.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "contents/descriptor_driver.h"
#include "contents/stored_types.h"
#include "trace/hdf5_values.h"

namespace headscope::data {
namespace {

using ObjectHandle = Handle<H5Oclose>;

// Index lookups of chunks: those of an unfinished trace of few tokens, and then in proportion to what the disk holds.
constexpr uint64_t kLookups = uint64_t{1} << 18;
constexpr uint64_t kBytesPerLookup = 64;
// Groups and datasets: a whole model's, and more in larger files.
constexpr uint64_t kObjects = 1024;
constexpr uint64_t kBytesPerObject = 1024;
constexpr size_t kMaxChunk = size_t{16} << 20;
// Lookups of one dataset that may fail. Beside a writer each is tried for a millisecond.
constexpr int kFailures = 200;

uint64_t Saturated(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kNoAddress : product;
}

bool ExtentsOf(hid_t space, std::vector<uint64_t>* extents) {
  const int rank = space >= 0 && H5Sget_simple_extent_type(space) != H5S_NULL ? H5Sget_simple_extent_ndims(space) : -1;
  if (rank < 0 || rank > static_cast<int>(kMaxRank)) return false;
  std::vector<hsize_t> found(kMaxRank);
  if (H5Sget_simple_extent_dims(space, found.data(), nullptr) != rank) return false;
  extents->assign(found.begin(), found.begin() + rank);
  return true;
}

// Whether exactly one name in the file leads to the object.
bool LinkedOnce(hid_t object) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info{};
  return H5Oget_info3(object, &info, H5O_INFO_BASIC) >= 0 && info.rc == 1;
#else
  H5O_info_t info{};
  return H5Oget_info2(object, &info, H5O_INFO_BASIC) >= 0 && info.rc == 1;
#endif
}

class Walk {
 public:
  Walk(hid_t file, uint64_t stored_bytes, Contents* contents)
      : file_(file),
        lookups_(kLookups + stored_bytes / kBytesPerLookup),
        objects_(kObjects + stored_bytes / kBytesPerObject),
        contents_(contents) {}

  void Group(const std::string& path, size_t depth);

 private:
  void Attributes(hid_t group, StoredGroup* described);
  StoredAttribute Attribute(hid_t group, const std::string& name);
  StoredDataset Dataset(hid_t object, const std::string& name);
  void Layout(hid_t dataset, hid_t creation, StoredDataset* described);
  void Chunks(hid_t dataset, StoredDataset* described);
  bool Chunk(hid_t dataset, const StoredDataset& described, const std::vector<hsize_t>& offset, uint64_t* address,
             uint64_t* size);

  hid_t file_;
  uint64_t lookups_, objects_;                                                                    // that are left
  const std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kMaxChunk + 4);  // stays as it is
  Contents* contents_;
};

StoredAttribute Walk::Attribute(hid_t group, const std::string& name) {
  StoredAttribute described;
  described.name = name;
  const AttributeHandle attribute(H5Aopen(group, name.c_str(), H5P_DEFAULT));
  const TypeHandle type(attribute.valid() ? H5Aget_type(attribute.get()) : H5I_INVALID_HID);
  const SpaceHandle space(attribute.valid() ? H5Aget_space(attribute.get()) : H5I_INVALID_HID);
  described.type = DescribeType(type.get());
  if (!ExtentsOf(space.get(), &described.extents) || described.type.kind == StoredKind::kOther) return described;
  uint64_t bytes = described.type.size;
  for (const uint64_t extent : described.extents) bytes = Saturated(bytes, extent);
  if (bytes > kMaxAttributeBytes) return described;
  described.bytes.assign(bytes, '\0');
  described.readable = bytes == 0 || H5Aread(attribute.get(), type.get(), described.bytes.data()) >= 0;
  return described;
}

herr_t KeepAttribute(hid_t, const char* name, const H5A_info_t*, void* out) {
  auto& names = *static_cast<std::vector<std::string>*>(out);
  if (names.size() == kMaxMembers) return 1;
  names.emplace_back(name);
  return 0;
}

void Walk::Attributes(hid_t group, StoredGroup* described) {
  std::vector<std::string> names;
  const herr_t outcome = H5Aiterate2(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, KeepAttribute, &names);
  described->readable = described->readable && outcome >= 0;
  described->crowded = described->crowded || outcome > 0;
  for (const std::string& name : names) {
    if (name.size() <= kMaxNameBytes) described->attributes.push_back(Attribute(group, name));
  }
}

struct Members {
  std::vector<std::string> names;
  std::string foreign;
  bool crowded = false;
};

herr_t KeepMember(hid_t, const char* name, const H5L_info_t* info, void* out) {
  auto& members = *static_cast<Members*>(out);
  if (members.names.size() == kMaxMembers) {
    members.crowded = true;
    return 1;
  }
  if (info->type != H5L_TYPE_HARD) {
    if (members.foreign.empty()) members.foreign = std::string(name).substr(0, kMaxNameBytes);
  } else if (std::string(name).size() <= kMaxNameBytes) {
    members.names.emplace_back(name);
  }
  return 0;
}

// The root's attributes come first of all: a living writer counts what it wrote after it wrote it, so the counts must
// be read before the places.
void Walk::Group(const std::string& path, size_t depth) {
  StoredGroup described;
  described.path = path;
  std::vector<std::string> subgroups;
  const GroupHandle group(H5Gopen2(file_, ("/" + path).c_str(), H5P_DEFAULT));
  H5G_info_t info{};
  described.readable = group.valid() && H5Gget_info(group.get(), &info) >= 0 &&
                       info.storage_type != H5G_STORAGE_TYPE_SYMBOL_TABLE &&
                       info.storage_type != H5G_STORAGE_TYPE_UNKNOWN;
  if (described.readable) {
    Attributes(group.get(), &described);
    Members members;
    const herr_t outcome = H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, KeepMember, &members);
    described.readable = described.readable && outcome >= 0;
    described.crowded = described.crowded || members.crowded;
    described.foreign_link = members.foreign;
    for (const std::string& name : members.names) {
      if (objects_ == 0) {
        described.crowded = true;
        break;
      }
      --objects_;
      const ObjectHandle object(H5Oopen(group.get(), name.c_str(), H5P_DEFAULT));
      if (!object.valid()) {
        described.datasets.emplace_back().name = name;  // whatever it is, it cannot be read
        continue;
      }
      const H5I_type_t kind = H5Iget_type(object.get());
      if (kind != H5I_GROUP && kind != H5I_DATASET) continue;
      if (!LinkedOnce(object.get())) {
        described.foreign_link = name;
      } else if (kind == H5I_DATASET) {
        described.datasets.push_back(Dataset(object.get(), name));
      } else {
        std::string subgroup = path;
        if (!path.empty()) subgroup += '/';
        subgroups.push_back(subgroup += name);
      }
    }
  }
  contents_->groups.push_back(std::move(described));
  if (depth == kMaxGroupDepth) return;
  for (const std::string& subgroup : subgroups) Group(subgroup, depth + 1);
}

StoredDataset Walk::Dataset(hid_t object, const std::string& name) {
  StoredDataset described;
  described.name = name;
  const TypeHandle type(H5Dget_type(object));
  const PropertyHandle creation(H5Dget_create_plist(object));
  described.type = DescribeType(type.get());
  if (!type.valid() || !creation.valid()) return described;
  if (H5Pget_layout(creation.get()) == H5D_VIRTUAL || H5Pget_external_count(creation.get()) != 0) {
    described.readable = true;
    described.layout = StoredLayout::kElsewhere;
    return described;  // before HDF5 looks at those files for the extents
  }
  const SpaceHandle space(H5Dget_space(object));
  described.readable = ExtentsOf(space.get(), &described.extents);
  if (!described.readable) return described;
  const int filters = H5Pget_nfilters(creation.get());
  described.readable = filters >= 0 && filters <= static_cast<int>(kMaxRank);
  for (int i = 0; described.readable && i < filters; ++i) {
    unsigned flags = 0, config = 0;
    size_t values = 0;
    described.filters.push_back(
        H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config));
  }
  if (described.readable) Layout(object, creation.get(), &described);
  return described;
}

void Walk::Layout(hid_t dataset, hid_t creation, StoredDataset* described) {
  const H5D_layout_t layout = H5Pget_layout(creation);
  const size_t rank = described->extents.size();
  if (layout == H5D_CONTIGUOUS) {
    described->layout = StoredLayout::kContiguous;
    described->address = H5Dget_offset(dataset);
    described->stored_bytes = described->address == kNoAddress ? 0 : H5Dget_storage_size(dataset);
  } else if (layout == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(kMaxRank);
    if (H5Pget_chunk(creation, static_cast<int>(kMaxRank), chunk.data()) != static_cast<int>(rank)) {
      described->readable = false;
      return;
    }
    described->chunk.assign(chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(rank));
    H5D_chunk_index_t index{};
    if (H5Dget_chunk_index_type(dataset, &index) >= 0 && index == H5D_CHUNK_IDX_EARRAY) Chunks(dataset, described);
  }
}

// Those of a trace: with the checksum alone all of one size, or each of its own where they are compressed. The reader
// refuses others anyway.
void Walk::Chunks(hid_t dataset, StoredDataset* described) {
  size_t axis = 0;
  {
    std::vector<hsize_t> extents(kMaxRank), limits(kMaxRank);
    const SpaceHandle space(H5Dget_space(dataset));
    H5Sget_simple_extent_dims(space.get(), extents.data(), limits.data());
    while (axis < described->extents.size() && limits[axis] != H5S_UNLIMITED) ++axis;
    if (axis == described->extents.size()) return;  // this index is only for what grows
  }
  const size_t rank = described->extents.size();
  uint64_t count = 1, bytes = described->type.size;
  for (size_t i = 0; i < rank; ++i) {
    const uint64_t extent = described->extents[i], chunk = described->chunk[i];
    if (chunk == 0) return;
    count = Saturated(count, extent / chunk + (extent % chunk != 0));
    bytes = Saturated(bytes, chunk);
  }
  if (described->filters != kPlainFilters && !described->IsCompressed()) return;
  described->layout = StoredLayout::kTooManyParts;
  if (count > lookups_ || bytes > kMaxChunk) return;
  lookups_ -= count;
  described->layout = StoredLayout::kChunked;
  described->chunk_bytes = bytes + 4;
  described->chunk_addresses.assign(count, kNoAddress);
  if (described->IsCompressed()) described->chunk_sizes.assign(count, 0);
  // What a killed writer had not flushed yet is not readable: the youngest chunks of every row, since rows grow
  // together.
  hsize_t readable_end = described->extents[axis];
  int failures = 0;
  std::vector<hsize_t> offset(rank, 0);
  for (uint64_t chunk = 0; chunk < count; ++chunk) {
    uint64_t* const address = &described->chunk_addresses[chunk];
    uint64_t* const size = described->IsCompressed() ? &described->chunk_sizes[chunk] : nullptr;
    if (offset[axis] < readable_end && failures < kFailures && !Chunk(dataset, *described, offset, address, size)) {
      readable_end = offset[axis];
      ++failures;
    }
    for (size_t i = rank; i-- > 0;) {
      offset[i] += described->chunk[i];
      if (offset[i] < described->extents[i]) break;
      offset[i] = 0;
    }
  }
}

// False when the index cannot be read there. `address` stays as it is where there is no chunk. `size`: null where all
// chunks have one.
bool Walk::Chunk(hid_t dataset, const StoredDataset& described, const std::vector<hsize_t>& offset, uint64_t* address,
                 uint64_t* size) {
  uint32_t skipped_filters = 0;
  ForgetDataReads();
  if (H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &skipped_filters, buffer_.get()) < 0) {
    hsize_t stored = 0;
    return H5Dget_chunk_storage_size(dataset, offset.data(), &stored) >= 0;
  }
  const DataReads read = LastDataReads();
  if (read.count == 1 && (size != nullptr || read.bytes == described.chunk_bytes) && skipped_filters == 0) {
    *address = read.address;
    if (size != nullptr) *size = read.bytes;
  }
  return true;
}

// The reason goes to `reason` here, because closing the access properties makes HDF5 forget it.
FileHandle Open(int descriptor, unsigned flags, std::string* reason) {
  const PropertyHandle access = DescriptorAccess(descriptor);
  FileHandle file(H5Fopen("/file", flags, access.get()));
  if (!file.valid()) *reason = Hdf5Reason().substr(0, kMaxNameBytes);
  return file;
}

}  // namespace

void PrepareHdf5() {
  const Hdf5Lock lock;
  DescribeType(H5T_STD_I32LE);  // makes the types that others are compared with
  DescriptorAccess(-1);
}

Contents DescribeFile(int descriptor, uint64_t stored_bytes) {
  const Hdf5Lock lock;
  Contents contents;
  std::string streaming_reason;
  FileHandle file = Open(descriptor, H5F_ACC_RDONLY, &contents.failure);
  if (!file.valid()) {
    // A file that is being written, or whose writer was killed, says so in its header and opens only like this.
    file = Open(descriptor, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, &streaming_reason);
  }
  if (!file.valid()) {
    // The open that does not suit the file fails for that alone.
    constexpr off_t kConsistencyFlags = 11;
    unsigned char flags = 0;
    if (pread(descriptor, &flags, 1, kConsistencyFlags) == 1 && (flags & 1) != 0) contents.failure = streaming_reason;
    return contents;
  }
  contents.failure.clear();
  Walk(file.get(), stored_bytes, &contents).Group("", 0);
  file.Release();  // the process ends; closing would only run more of HDF5 over the file
  return contents;
}

}  // namespace headscope::data
