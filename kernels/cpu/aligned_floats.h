// SPDX-License-Identifier: Apache-2.0
// Cache-line aligned float buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace headscope::kernels {

inline constexpr std::align_val_t kCacheLine{64};

struct FreeAlignedFloats {
  void operator()(float* p) const { ::operator delete[](p, kCacheLine); }
};
using AlignedFloats = std::unique_ptr<float[], FreeAlignedFloats>;

// Uninitialised. Throws std::bad_alloc when memory is exhausted.
inline AlignedFloats AllocateFloats(int64_t count) {
  const auto bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(float);
  return AlignedFloats(static_cast<float*>(::operator new[](bytes, kCacheLine)));
}

}  // namespace headscope::kernels
