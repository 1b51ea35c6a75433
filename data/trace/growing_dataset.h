// SPDX-License-Identifier: Apache-2.0
// A chunked dataset that grows along one axis while the file is written in SWMR mode.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  // `cache_bytes` bounds what HDF5 keeps of open chunks in memory.
  GrowingDataset(hid_t group, const std::string& name, hid_t type, const GrowingShape& shape, size_t cache_bytes);

  hsize_t length() const { return shape_.extents[shape_.axis]; }

  // Extends the growing axis to `length`; never shrinks it (SWMR readers rely on that).
  void Grow(hsize_t length);
  // Writes the block at `offset` of size `count`, contiguous in `values`, of the dataset's own type.
  void Write(const std::vector<hsize_t>& offset, const std::vector<hsize_t>& count, const void* values);
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
  DatasetHandle dataset_;
  TypeHandle type_;
};

}  // namespace headscope::data
