// What the tests of the GPU's statistics share.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <vector>

#include "support/gpu.h"

namespace headscope::kernels::testing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The largest error over what is allowed for it; at most 1 passes.
class WorstError {
 public:
  void Add(double measured, double expected, double absolute, double relative) {
    const double allowed = absolute + relative * std::abs(expected);
    const double error = std::abs(measured - expected) / allowed;
    if (!(error <= worst_)) {  // NaN is the worst
      worst_ = std::isnan(error) ? kInfinity : error;
      measured_ = measured;
      expected_ = expected;
    }
  }
  void Check(const char* what) const {
    EXPECT_LE(worst_, 1.0) << what << ": measured " << measured_ << ", expected " << expected_;
    std::printf("    %-12s worst error %.3f of what is allowed (at %g)\n", what, worst_, expected_);
  }

 private:
  double worst_ = 0, measured_ = 0, expected_ = 0;
};

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
