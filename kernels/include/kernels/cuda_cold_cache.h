// SPDX-License-Identifier: Apache-2.0
// The L2 cache as a timed run should find it: full of data that it does not use, none of which has been written.
//
// Why reads: what a write leaves in L2 has to be written back to memory before anything else can take its place, and
// the run that comes next pays for that. In a model the step before an attention has read its weights. On an H200 a
// decode step behind writes takes 2 to 12 % longer (docs/kernels/decode_selection.md).
#pragma once

#include <cstdint>

#include "kernels/cuda_memory.h"
#include "kernels/status.h"

namespace headscope::kernels {

class ColdCache {
 public:
  // Eight times the L2 of the current GPU, allocated there. Errors: kOutOfMemory; the runtime's.
  static Status Create(ColdCache* made);

  // Enqueues on `stream` (a cudaStream_t of that GPU) one read of all of it, some 100 microseconds on an H200, in which
  // the host can get ahead. Asynchronous.
  Status Fill(void* stream) const;

  int64_t bytes() const { return bytes_; }

 private:
  DeviceMemory memory_;
  int64_t bytes_ = 0;
  int32_t multiprocessors_ = 0;
};

}  // namespace headscope::kernels
