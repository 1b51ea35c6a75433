// SPDX-License-Identifier: Apache-2.0
// Memory that was freed goes back to the system.
#pragma once

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace headscope::app {

// Of a quarter million small blocks the C library would keep the pages.
inline void ReturnFreePages() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// A head's tensors, its tiles and its outputs are mapped one by one, and are the system's again when they are let go
// of. By itself the C library maps such blocks until the first is freed, and takes those of up to 32 MiB from its heaps
// from then on: of heads that were looked at and have left their budget, these kept nearly as many bytes again.
inline void MapLargeBlocks() {
#ifdef __GLIBC__
  constexpr int kLarge = 128 << 10;  // bytes: where the C library begins
  mallopt(M_MMAP_THRESHOLD, kLarge);
#endif
}

}  // namespace headscope::app
