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

}  // namespace headscope::app
