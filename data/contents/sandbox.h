// SPDX-License-Identifier: Apache-2.0
// Gives up everything that reading the metadata of one open file does not need.
#pragma once

#include <cstdint>

namespace headscope::data {

struct SandboxLimits {
  uint64_t memory_bytes = 0;  // of addresses
  uint64_t seconds = 0;       // of processor time
};

// Afterwards the process has the descriptors 0 to 2 alone, cannot open, create, execute or signal anything, and dies of
// any system call beyond reading, writing, memory and waiting. False when the kernel has no filter for system calls;
// the limits hold then as well. Throws std::runtime_error when a limit cannot be set.
bool EnterSandbox(const SandboxLimits& limits);

}  // namespace headscope::data
