// SPDX-License-Identifier: Apache-2.0
// Copies from global to shared memory that need no registers on their way: cp.async, from compute capability 8.0 on. A
// thread's copies make groups, which arrive in order; what has arrived is seen by the thread itself, and by others
// after a barrier.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace headscope::kernels::cuda {

// 16 bytes to a shared memory address (SharedAddress); both places are multiples of 16.
__device__ __forceinline__ void CopyAsync(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// The same, or 16 bytes of zero: then `from` is not read.
__device__ __forceinline__ void CopyAsyncOrZero(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

// Ends the thread's group of copies, which may be empty.
__device__ __forceinline__ void EndCopyGroup() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until all of the thread's groups but the newest kNewest have arrived.
template <int kNewest>
__device__ __forceinline__ void AwaitCopyGroups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
}

}  // namespace headscope::kernels::cuda
