// SPDX-License-Identifier: Apache-2.0
// Memory on the GPU, as tests fill it and read it back.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace headscope::kernels::testing {

struct FreeDevice {
  void operator()(void* p) const { cudaFree(p); }
};
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(int64_t count) : count_(static_cast<size_t>(count)) {
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, count_ * sizeof(T)), cudaSuccess);
    memory_.reset(pointer);
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
  std::unique_ptr<void, FreeDevice> memory_;
};

}  // namespace headscope::kernels::testing
