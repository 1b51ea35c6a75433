// What the decode tests share: 16-bit floats on the host, and memory on the GPU.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace headscope::test {

// fp32 to the nearest bf16, ties to even; no NaN comes in but the one that is wanted.
inline uint16_t ToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float FromBf16(uint16_t x) {
  return std::bit_cast<float>(uint32_t{x} << 16);
}
// Values with at most 10 mantissa bits and a small exponent convert to fp16 exactly.
inline uint16_t ToFp16(float x) {
  if (std::isnan(x)) return 0x7e00;
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const int exponent = static_cast<int>((bits >> 23) & 0xffu) - 127 + 15;
  if (exponent <= 0) return sign;
  return static_cast<uint16_t>(sign | (exponent << 10) | ((bits >> 13) & 0x3ffu));
}
inline float FromFp16(uint16_t x) {
  const int exponent = (x >> 10) & 0x1f;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(x & 0x3ff), -24)
                                        : std::ldexp(static_cast<float>(0x400 | (x & 0x3ff)), exponent - 25);
  return (x & 0x8000) ? -magnitude : magnitude;
}

template <typename T>
class Device {
 public:
  explicit Device(const std::vector<T>& host) : size_(host.size()) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~Device() { cudaFree(data_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  T* get() const { return data_; }
  std::vector<T> Download() const {
    std::vector<T> host(size_);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

}  // namespace headscope::test
