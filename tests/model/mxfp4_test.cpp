// SPDX-License-Identifier: Apache-2.0
// Weights of four bits, whose values tests/oracle's tiny GPT-OSS compares; here every code and scale, and their memory.
#include "network/mxfp4.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

namespace headscope::model {
namespace {

at::Tensor Filled(at::IntArrayRef shape, uint8_t value) {
  return at::full(shape, value, at::kByte);
}

TEST(Mxfp4, EveryCodeWithEveryScale) {
  // E2M1 by its definition: a sign, two bits of exponent with bias 1, a bit of mantissa; no infinity.
  const auto value_of = [](unsigned code) {
    const double mantissa = (code & 1) / 2.0;
    const unsigned exponent = code >> 1 & 3;
    const double size = exponent == 0 ? mantissa : std::ldexp(1 + mantissa, static_cast<int>(exponent) - 1);
    return (code & 8) != 0 ? -size : size;
  };
  at::Tensor blocks = at::empty({1, 1, 16}, at::kByte);
  for (unsigned i = 0; i < 16; ++i)
    blocks.mutable_data_ptr<uint8_t>()[i] = static_cast<uint8_t>(i | (15 - i) << 4);  // i below, 15 - i above
  for (int scale = 0; scale <= 255; ++scale) {
    const at::Tensor numbers = FromMxfp4(blocks, Filled({1, 1}, static_cast<uint8_t>(scale)));
    ASSERT_EQ(numbers.sizes(), (std::vector<int64_t>{1, 32}));
    const auto* found = numbers.const_data_ptr<float>();
    for (unsigned i = 0; i < 32; ++i) {
      const double value = value_of(i % 2 == 0 ? i / 2 : 15 - i / 2);
      if (scale == 255)
        ASSERT_TRUE(std::isnan(found[i]));
      else
        ASSERT_EQ(found[i], static_cast<float>(std::ldexp(value, scale - 127))) << "scale " << scale << " number " << i;
    }
  }
}

// The largest amount of memory since the last call.
int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  int64_t kilobytes = 0;
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") status >> kilobytes;
  }
  std::ofstream("/proc/self/clear_refs") << "5";
  return kilobytes << 10;
}

// Once, 30 times the file's bytes were taken on the way. The result alone is eight times as large.
TEST(Mxfp4, TakesNoMemoryBesideItsResult) {
  constexpr int64_t kRows = 1024, kBlocks = 512, kBytes = kRows * kBlocks * 16;
  const at::Tensor blocks = Filled({kRows, kBlocks, 16}, 0x21), scales = Filled({kRows, kBlocks}, 127);
  PeakBytes();
  const int64_t before = PeakBytes();
  const at::Tensor numbers = FromMxfp4(blocks, scales);
  EXPECT_LE(PeakBytes() - before, 9 * kBytes);
  EXPECT_EQ(numbers.const_data_ptr<float>()[1], 1.0f);
}

}  // namespace
}  // namespace headscope::model
