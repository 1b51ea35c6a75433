// SPDX-License-Identifier: Apache-2.0
// A chunked dataset that grows along one axis while the file is written in SWMR mode.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/chunk_driver.h"
#include "trace/hdf5_handle.h"

namespace headscope::data {

// Shape of a growing dataset. The axis `axis` grows; a chunk spans `chunk_items` of it and, of the others, one item
// before the axis and everything after it: [1, 1, chunk_items, head_dim].
struct GrowingShape {
  std::vector<hsize_t> extents;  // with 0 or the initial length at `axis`
  size_t axis = 0;
  hsize_t chunk_items = 1;
  std::vector<std::string> dimension_names;
  std::string unit;
  bool compressed = false;  // chunks are shuffled and deflated before their checksum
};

class GrowingDataset {
 public:
  GrowingDataset() = default;
  // `cache_bytes` bounds what is kept of open chunks in memory: OpenChunks of them.
  GrowingDataset(hid_t group, const std::string& name, hid_t type, const GrowingShape& shape, size_t cache_bytes);

  // Of `num_heads` open chunks those that are kept in memory, one at least.
  static hsize_t OpenChunks(hsize_t num_heads, hsize_t chunk_bytes, size_t cache_bytes) {
    return std::min<hsize_t>(num_heads, std::max<hsize_t>(1, cache_bytes / chunk_bytes));
  }

  hsize_t length() const { return shape_.extents[shape_.axis]; }

  // Extends the growing axis to `length`; never shrinks it (SWMR readers rely on that).
  void Grow(hsize_t length);
  // Writes the block at `offset` of size `count`, contiguous in `values`, of the dataset's own type.
  void Write(const std::vector<hsize_t>& offset, const std::vector<hsize_t>& count, const void* values);
  // The same for one row of heads that is continued where it ends: `num_heads` of them from `first_head` on, counted
  // over all axes before the growing one, each with `length` items from `first` on, which the dataset has grown to.
  // Takes Hdf5Lock by itself, and only to ask where chunks that are full belong.
  void Continue(hsize_t first_head, hsize_t num_heads, hsize_t first, hsize_t length, const void* values);
  // Writes the chunks that Continue has begun. Takes Hdf5Lock like it.
  void WriteBegunChunks();
  // For datasets of one axis: grows by `count` and writes there.
  void AppendItems(hsize_t count, const void* values);

  // Bytes that the file needs for this dataset when it is `length` long, every started chunk counted whole.
  int64_t StoredBytes(hsize_t length) const;

  // Gives the HDF5 identifiers up without closing them (see TraceWriter: nothing may be closed after a failed write).
  void Abandon();

 private:
  std::string name_;
  GrowingShape shape_;
  hsize_t item_bytes_ = 0;  // bytes of one item of the growing axis inside one chunk
  hsize_t num_heads_ = 1;   // product of the extents before the growing axis

  // The chunk at the end of a head, which is put together here: HDF5's own cache copies and sums up chunks more slowly
  // than disks take them.
  struct OpenChunk {
    std::unique_ptr<char[]> bytes;  // null where the head's last chunk is full
    hsize_t number = 0;             // of the head's chunks
    hsize_t items = 0;              // that are there
    bool is_written = true;         // as it is
    BegunChunk in_file;
  };
  // `items`: that are there; the others are zeros. Returns what the file has of it then, which was `before`.
  BegunChunk WriteChunk(hsize_t head, hsize_t number, const char* values, hsize_t items, const BegunChunk& before);
  std::vector<OpenChunk> open_;  // of each head; empty: HDF5 keeps them
  // What full chunks left for the next: new memory takes longer to be had than chunks to be put together.
  std::vector<std::unique_ptr<char[]>> spare_;

  DatasetHandle dataset_;
  TypeHandle type_;
};

}  // namespace headscope::data
