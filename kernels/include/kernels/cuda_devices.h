// SPDX-License-Identifier: Apache-2.0
// Which of a machine's GPUs this library's CUDA calls use. The choice belongs to a thread: every call of a thread goes
// to the GPU that it chose last, to GPU 0 before it has chosen. Numbers are CUDA's, from 0, of the GPUs that
// CUDA_VISIBLE_DEVICES leaves.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/status.h"

namespace headscope::kernels {

// Makes GPU `device` the calling thread's. Errors are those of QueryCudaDevice (cuda_executor.h): no usable GPU, none
// of that number, a build without CUDA.
Status UseCudaDevice(int32_t device);

// A GPU that is the calling thread's while this lives; after it the one before is again. Threads that take work from a
// queue enter the GPU that the work names.
class CudaDeviceScope {
 public:
  CudaDeviceScope() = default;
  ~CudaDeviceScope();
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;

  // Errors as UseCudaDevice's, and nothing has changed then. Once a scope.
  Status Enter(int32_t device);

 private:
  int32_t before_ = -1;  // -1: nothing to go back to
};

// The calling thread's GPU for people to read: its name and, where there are several GPUs, its number, such as
// "NVIDIA H200 (cuda:1)"; and that number alone. Errors: no usable GPU, a build without CUDA.
Status NameOfCudaDevice(std::string* name, int32_t* number = nullptr);

}  // namespace headscope::kernels
