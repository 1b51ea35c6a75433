// SPDX-License-Identifier: Apache-2.0
// For tests that run kernels on a GPU. scripts/gpu-test runs them where there is one and fails when they skip
// themselves all the same; it looks for the words "no usable GPU".
#pragma once

#include <gtest/gtest.h>

#include "kernels/cuda_executor.h"

namespace headscope::test {

// Whether GPU 0 runs headscope's kernels: compute capability 8.0 or newer, driver and CUDA build included.
inline bool HaveGpu() {
  kernels::CudaDeviceInfo info;
  return kernels::QueryCudaDevice(0, &info).ok() && info.compute_capability >= 80;
}

}  // namespace headscope::test

// Ends a test, or the SetUp of a fixture, where there is none.
#define SKIP_WITHOUT_GPU() \
  if (!::headscope::test::HaveGpu()) GTEST_SKIP() << "no usable GPU: it takes one of compute capability 8.0 or newer"
