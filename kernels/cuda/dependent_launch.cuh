// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch, compute capability 9.0: a kernel's thread blocks start as soon as all blocks of the
// kernel before have started and leave room, so that its launch, and what it does before WaitForKernelBefore(), cost no
// time of their own. On older GPUs, or where code for an older one runs on a newer, it is an ordinary launch.
//
// A chain begins with an ordinary launch, which waits for all that the stream held before. Every later kernel calls
// WaitForKernelBefore() in each block that reads or writes what an earlier one of the chain has to do with; before it,
// it may read what was there when the chain began. At least one block calls it whatever the sizes: as each kernel waits
// for the one before, it waits for all before that; a grid that ended without waiting would break the chain.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace headscope::kernels::cuda {

// From here on, thread blocks of the kernel behind may start where there is room. Early is right: they start only once
// all blocks of this one have come here.
__device__ __forceinline__ void LetNextKernelStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the kernel before has ended and its writes are visible.
__device__ __forceinline__ void WaitForKernelBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// `kernel` calls WaitForKernelBefore(). Asks the runtime alone, as AllowSharedMemory does; can be captured in a graph.
template <class... Params, class... Args>
cudaError_t LaunchDependent(void (*kernel)(Params...), dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
                            const Args&... args) {
  // Code without the wait must not start early: which code runs is for the runtime to say, not for the GPU's version.
  cudaFuncAttributes code{};
  if (const cudaError_t error = cudaFuncGetAttributes(&code, reinterpret_cast<const void*>(kernel));
      error != cudaSuccess) {
    return error;
  }
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = code.ptxVersion >= 90 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

}  // namespace headscope::kernels::cuda
