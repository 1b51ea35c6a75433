// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU that its owner frees, for sources that see nothing of CUDA's headers.
#pragma once

#include <memory>

namespace headscope::kernels {

// Does nothing in a build without CUDA, where there is nothing to free.
struct FreeDevice {
  void operator()(void* memory) const;
};
// Memory of the GPU that was current when it was allocated, aligned to 256 bytes.
using DeviceMemory = std::unique_ptr<void, FreeDevice>;

}  // namespace headscope::kernels
