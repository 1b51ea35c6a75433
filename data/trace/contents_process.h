// SPDX-License-Identifier: Apache-2.0
// Runs headscope-contents, the process without rights in which libhdf5 looks at a file.
#pragma once

#include <cstdint>
#include <string>

#include "trace/contents.h"

namespace headscope::data {

// What a process may take for a file of so many bytes on the disk; also what trace_format.md promises.
struct ContentsLimits {
  explicit ContentsLimits(int64_t stored_bytes);
  uint64_t memory_bytes;  // of its addresses
  uint64_t seconds;       // of processor time
  uint64_t table_bytes;   // of its answer
  int64_t wall_seconds;   // until it is given up, for a slow disk
};

// The contents of the file behind `descriptor`, of which nothing is changed. When the process did not come to an end as
// it should, `problem` says what happened to it ("failed on it (Segmentation fault)"), and the contents are empty.
// Throws FailedError when it cannot be started, std::bad_alloc when that is for want of memory.
Contents ReadContents(int descriptor, int64_t stored_bytes, std::string* problem);

}  // namespace headscope::data
