// SPDX-License-Identifier: Apache-2.0
// How much memory this process has allocated and not freed. The resident part (resident_bytes.h) holds as well what the
// allocator keeps of freed blocks, which depends on the number of threads and on what they happen to do when.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace headscope::gui_test {

inline int64_t AllocatedBytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  const struct mallinfo2 all = mallinfo2();
  return static_cast<int64_t>(all.uordblks + all.hblkhd);
#endif
}

}  // namespace headscope::gui_test
