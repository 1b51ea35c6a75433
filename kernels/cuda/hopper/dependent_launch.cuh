// Programmatic dependent launch: a kernel that the GPU may start while the one before it in the stream still runs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace headscope::kernels::hopper {

// Until the kernel before this one in the stream is done and what it wrote can be read. Needed before the first use of
// anything that it writes.
__device__ inline void WaitForKernelBefore() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The kernel behind this one may start where there is room, once all blocks have come here.
__device__ inline void LetNextKernelStart() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches a kernel that need not wait for the one before it in the stream, because it calls WaitForKernelBefore().
template <class... Params, class... Args>
cudaError_t LaunchDependent(void (*kernel)(Params...), int num_blocks, int threads, size_t shared_bytes,
                            cudaStream_t stream, const Args&... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(num_blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

}  // namespace headscope::kernels::hopper
