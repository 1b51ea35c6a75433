// SPDX-License-Identifier: Apache-2.0
// Memory on the GPU, as tests fill it and read it back.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda_resources.h"

namespace headscope::kernels::testing {

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(int64_t count) : count_(static_cast<size_t>(count)) {
    const Status status = AllocateOnDevice(static_cast<int64_t>(count_ * sizeof(T)), "a test", &memory_);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(static_cast<int64_t>(values.size())) {
    EXPECT_EQ(cudaMemcpy(get(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  T* get() const { return static_cast<T*>(memory_.get()); }
  std::vector<T> Download() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), get(), count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  size_t count_;
  DeviceMemory memory_;
};

}  // namespace headscope::kernels::testing
