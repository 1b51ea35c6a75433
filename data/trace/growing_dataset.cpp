// SPDX-License-Identifier: Apache-2.0
#include "trace/growing_dataset.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "trace/chunk_driver.h"
#include "trace/hdf5_values.h"

namespace headscope::data {
namespace {

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
  // appending a few tokens does not read and rewrite them: here where they are not compressed and all fit, else in
  // HDF5's cache. There w0 = 1 lets whole chunks leave first; its hash has no chaining, hence many more slots than
  // chunks.
  const hsize_t chunk_bytes = shape_.chunk_items * item_bytes_;
  if (shape_.axis > 0 && !shape_.compressed && num_heads_ <= cache_bytes / chunk_bytes) open_.resize(num_heads_);
  const hsize_t open_chunks = open_.empty() ? OpenChunks(num_heads_, chunk_bytes, cache_bytes) : 1;
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
  const Hdf5Lock lock;
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

void GrowingDataset::Continue(hsize_t first_head, hsize_t num_heads, hsize_t first, hsize_t length,
                              const void* values) {
  if (open_.empty()) {
    // The axes before the growing one, of which all but the last have one item in a block.
    std::vector<hsize_t> offset(shape_.extents.size()), count(shape_.extents.size(), 1);
    hsize_t left = first_head;
    for (size_t axis = shape_.axis; axis-- > 0;) {
      offset[axis] = left % shape_.extents[axis];
      left /= shape_.extents[axis];
    }
    if (shape_.axis > 0) count[shape_.axis - 1] = num_heads;
    offset[shape_.axis] = first;
    count[shape_.axis] = length;
    std::copy(shape_.extents.begin() + static_cast<std::ptrdiff_t>(shape_.axis) + 1, shape_.extents.end(),
              count.begin() + static_cast<std::ptrdiff_t>(shape_.axis) + 1);
    const Hdf5Lock lock;
    Write(offset, count, values);
    return;
  }
  const char* from = static_cast<const char*>(values);
  for (hsize_t head = first_head; head < first_head + num_heads; ++head) {
    OpenChunk& chunk = open_[head];
    for (hsize_t item = first; item < first + length;) {
      chunk.number = item / shape_.chunk_items;
      chunk.items = item % shape_.chunk_items;
      const hsize_t taken = std::min(first + length - item, shape_.chunk_items - chunk.items);
      if (taken == shape_.chunk_items) {
        WriteChunk(head, chunk.number, from, shape_.chunk_items, {});
      } else {
        if (chunk.bytes == nullptr && !spare_.empty()) {
          chunk.bytes = std::move(spare_.back());
          spare_.pop_back();
        } else if (chunk.bytes == nullptr) {
          chunk.bytes = std::make_unique_for_overwrite<char[]>(shape_.chunk_items * item_bytes_);
        }
        std::memcpy(chunk.bytes.get() + chunk.items * item_bytes_, from, taken * item_bytes_);
        chunk.items += taken;
        chunk.is_written = chunk.items == shape_.chunk_items;
        if (chunk.is_written) {
          WriteChunk(head, chunk.number, chunk.bytes.get(), shape_.chunk_items, {});
          chunk.in_file = {};
          spare_.push_back(std::move(chunk.bytes));
        }
      }
      from += taken * item_bytes_;
      item += taken;
    }
  }
}

BegunChunk GrowingDataset::WriteChunk(hsize_t head, hsize_t number, const char* values, hsize_t items,
                                      const BegunChunk& before) {
  std::vector<hsize_t> offset(shape_.extents.size());
  for (size_t axis = shape_.axis; axis-- > 0;) {
    offset[axis] = head % shape_.extents[axis];
    head /= shape_.extents[axis];
  }
  offset[shape_.axis] = number * shape_.chunk_items;
  const std::string action = "writing dataset " + name_;
  StoredChunk chunk(values, items * item_bytes_, shape_.chunk_items * item_bytes_, before);
  {
    const Hdf5Lock lock;
    chunk.FindPlace(
        [&](const void* stored, size_t size) {
          return H5Dwrite_chunk(dataset_.get(), H5P_DEFAULT, 0, offset.data(), size, stored);
        },
        action);
  }
  chunk.Write(action);
  return chunk.begun();
}

void GrowingDataset::WriteBegunChunks() {
  for (hsize_t head = 0; head < open_.size(); ++head) {
    OpenChunk& chunk = open_[head];
    if (chunk.is_written) continue;
    // What is not there yet is read as zeros, as of a chunk that HDF5 began.
    chunk.in_file = WriteChunk(head, chunk.number, chunk.bytes.get(), chunk.items, chunk.in_file);
    chunk.is_written = true;
  }
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
