// SPDX-License-Identifier: Apache-2.0
// Lists that would lead anywhere, for an index that keeps everything: an executor that is told so reads none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "device_array.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::testing {

class NoLists {
 public:
  explicit NoLists(const SparseIndexView& index)
      : garbage_(std::vector<int64_t>(static_cast<size_t>(std::max(index.NumLists(), index.runs_size)),
                                      0x5b5b5b5b5b5b5b5b)) {}

  // Valid while this is.
  SparseIndexView InPlaceOf(SparseIndexView index) const {
    index.run_begin = index.column_begin = garbage_.get();
    index.run_count = index.column_count = reinterpret_cast<const int32_t*>(garbage_.get());
    index.runs = reinterpret_cast<const KeyRun*>(garbage_.get());
    return index;
  }

 private:
  const DeviceArray<int64_t> garbage_;
};

}  // namespace headscope::kernels::testing
