// SPDX-License-Identifier: Apache-2.0
// Where the state of a list's units changes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace headscope::kernels::selection {

// A unit of keys at which the state changes, and the state from it on: whether the upper rows keep them (bit 0),
// whether the lower (bit 1), and whether the diagonal may cut them (bit 2). Keys are below 2^28, as runs are shorter.
struct StateChange {
  uint32_t packed;  // state | unit << 3

  __device__ static StateChange Make(int32_t unit, uint32_t state) {
    return {state | static_cast<uint32_t>(unit) << 3};
  }
  __device__ int32_t Unit() const { return static_cast<int32_t>(packed >> 3); }
  __device__ uint32_t State() const { return packed & 7; }
};

}  // namespace headscope::kernels::selection
