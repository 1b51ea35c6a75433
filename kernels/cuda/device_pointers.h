// SPDX-License-Identifier: Apache-2.0
// Whether the GPU of a call can follow the call's pointers. A kernel that meets another GPU's memory or the host's ends
// with an illegal access, which the process' CUDA context does not survive.
#pragma once

#include <initializer_list>

#include "kernels/status.h"

namespace headscope::kernels {

// An address as a message names it. Null: an array that is left out, which passes; calls check those that they need.
struct NamedAddress {
  const char* field;
  const void* address;
};

// Every address lies in memory of the current GPU, in managed memory, or in host memory that is registered under the
// same address. kInvalidArgument names the first that does not: another GPU's, the host's, or freed. Plain host memory
// is refused on systems as well whose GPUs could page it in: a call means the same on every machine.
//
// Only the base address is looked at, not how far the memory reaches. While `stream`, the call's, is captured, an
// address that CUDA does not know passes: memory that cudaMallocAsync makes in a capture is in no table before the
// graph runs. Leaves no error behind. The runtime looks an address up in its table of allocations, 0.16 us each beside
// an H200, so some 1.5 us for the arrays of a decode step; a step that runs from a CUDA graph pays nothing. Needs a
// GPU: comes after FindCurrentDevice, when all else has been checked.
Status CheckOnDevice(std::initializer_list<NamedAddress> addresses, void* stream);

}  // namespace headscope::kernels
