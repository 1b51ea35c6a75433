// SPDX-License-Identifier: Apache-2.0
#include "trace/growing_dataset.h"

#include <algorithm>

#include "trace/hdf5_values.h"

namespace headscope::data {
namespace {

constexpr hsize_t kChecksumBytes = 4;

hsize_t NextPrime(hsize_t number) {
  const auto is_prime = [](hsize_t n) {
    for (hsize_t d = 2; d * d <= n; ++d) {
      if (n % d == 0) {
        return false;
      }
    }
    return n > 1;
  };
  while (!is_prime(number)) {
    ++number;
  }
  return number;
}

// Of deflate, 1 to 9: beyond this one the noise in vectors takes longer and gets no smaller.
constexpr unsigned kDeflateLevel = 4;

PropertyHandle CreationProperties(const std::vector<hsize_t>& chunk, bool compressed) {
  PropertyHandle creation = WithoutTimes(H5P_DATASET_CREATE);
  Require(H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()), "setting the chunk size");
  if (compressed) {
    Require(H5Pset_shuffle(creation.get()), "setting the order of bytes");
    Require(H5Pset_deflate(creation.get(), kDeflateLevel), "setting the compression");
  }
  Require(H5Pset_fletcher32(creation.get()), "setting the checksum");
  // Attributes stay in the object header: the separate index that HDF5 makes for many of them is one more thing to lose
  // in a crash.
  Require(H5Pset_attr_phase_change(creation.get(), 64, 0), "setting the attribute storage");
  return creation;
}

}  // namespace

GrowingDataset::GrowingDataset(hid_t group, const std::string& name, hid_t type, const GrowingShape& shape,
                               size_t cache_bytes)
    : name_(name), shape_(shape), type_(Require(H5Tcopy(type), "copying a type")) {
  const size_t rank = shape_.extents.size();
  std::vector<hsize_t> limits = shape_.extents;
  limits[shape_.axis] = H5S_UNLIMITED;
  std::vector<hsize_t> chunk(rank, 1);
  item_bytes_ = H5Tget_size(type);
  for (size_t i = shape_.axis + 1; i < rank; ++i) {
    chunk[i] = shape_.extents[i];
    item_bytes_ *= shape_.extents[i];
  }
  for (size_t i = 0; i < shape_.axis; ++i) {
    num_heads_ *= shape_.extents[i];
  }
  chunk[shape_.axis] = shape_.chunk_items;

  // Each head of each layer has one open chunk at its end. They all stay in memory (up to cache_bytes) so that
  // appending a few tokens does not read and rewrite them; w0 = 1 lets whole chunks leave first. The hash has no
  // chaining, hence many more slots than chunks.
  const hsize_t chunk_bytes = shape_.chunk_items * item_bytes_;
  const hsize_t open_chunks = std::min<hsize_t>(num_heads_, std::max<hsize_t>(1, cache_bytes / chunk_bytes));
  PropertyHandle access(Require(H5Pcreate(H5P_DATASET_ACCESS), "creating properties"));
  Require(H5Pset_chunk_cache(access.get(), NextPrime(open_chunks * 16 + 1), (open_chunks + 1) * chunk_bytes, 1.0),
          "setting the chunk cache");

  SpaceHandle space(
      Require(H5Screate_simple(static_cast<int>(rank), shape_.extents.data(), limits.data()), "creating a data space"));
  const PropertyHandle creation = CreationProperties(chunk, shape_.compressed);
  dataset_ = DatasetHandle(
      Require(H5Dcreate2(group, name.c_str(), type, space.get(), H5P_DEFAULT, creation.get(), access.get()),
              "creating dataset " + name));
  CreateTexts(dataset_.get(), "dimensions", shape_.dimension_names);
  CreateText(dataset_.get(), "units", shape_.unit);
}

void GrowingDataset::Grow(hsize_t length) {
  if (length <= shape_.extents[shape_.axis]) {
    return;
  }
  std::vector<hsize_t> extents = shape_.extents;
  extents[shape_.axis] = length;
  Require(H5Dset_extent(dataset_.get(), extents.data()), "extending dataset " + name_);
  shape_.extents = extents;
}

void GrowingDataset::Write(const std::vector<hsize_t>& offset, const std::vector<hsize_t>& count, const void* values) {
  SpaceHandle file_space(Require(H5Dget_space(dataset_.get()), "writing dataset " + name_));
  Require(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, offset.data(), nullptr, count.data(), nullptr),
          "writing dataset " + name_);
  SpaceHandle memory_space(
      Require(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), "writing dataset " + name_));
  Require(H5Dwrite(dataset_.get(), type_.get(), memory_space.get(), file_space.get(), H5P_DEFAULT, values),
          "writing dataset " + name_);
}

void GrowingDataset::AppendItems(hsize_t count, const void* values) {
  if (count == 0) {
    return;
  }
  const hsize_t begin = length();
  Grow(begin + count);
  Write({begin}, {count}, values);
}

int64_t GrowingDataset::StoredBytes(hsize_t length) const {
  const hsize_t chunks = (length + shape_.chunk_items - 1) / shape_.chunk_items;
  return static_cast<int64_t>(num_heads_ * chunks * (shape_.chunk_items * item_bytes_ + kChecksumBytes));
}

void GrowingDataset::Abandon() {
  dataset_.Release();
  type_.Release();
}

}  // namespace headscope::data
