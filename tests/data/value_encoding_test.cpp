// SPDX-License-Identifier: Apache-2.0
#include "trace/value_encoding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "data/trace_reader.h"

namespace headscope::data {
namespace {

uint16_t Encoded(float value, ElementType encoding, int64_t* overflow = nullptr) {
  uint16_t out = 0;
  const int64_t first = EncodeFloats(&value, 1, encoding, &out);
  if (overflow != nullptr) *overflow = first;
  return out;
}

float Decoded(uint16_t bits, ElementType encoding) {
  float value = 0;
  DecodeToFloat(&bits, encoding, 1, &value);
  return value;
}

class Narrow : public ::testing::TestWithParam<ElementType> {};
INSTANTIATE_TEST_SUITE_P(All, Narrow, ::testing::Values(ElementType::kBFloat16, ElementType::kFloat16));

TEST_P(Narrow, EveryNumberOfItComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = Decoded(static_cast<uint16_t>(bits), GetParam());
    const uint16_t again = Encoded(value, GetParam());
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Decoded(again, GetParam()))) << bits;
    } else {
      EXPECT_EQ(again, bits);
    }
  }
}

// By the definition: no other number of the encoding is nearer, and of two that are equally near it is the even one.
TEST_P(Narrow, TakesTheNearest) {
  std::mt19937 random(5);
  for (int i = 0; i < 400000; ++i) {
    auto bits = static_cast<uint32_t>(random());
    // Half of them lie half-way between two numbers, or a little beside that.
    const uint32_t half = GetParam() == ElementType::kBFloat16 ? 0x8000 : 0x1000;
    if (i % 2 == 0) bits = (bits & ~(2 * half - 1)) + half + static_cast<uint32_t>(i / 2 % 3) - 1;
    if (GetParam() == ElementType::kFloat16 && i % 4 < 2) bits = (bits & 0x8fffffff) | 0x30000000;  // 2^-31 to 2^-1
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    int64_t overflow = 0;
    const uint16_t found = Encoded(value, GetParam(), &overflow);
    const double at = Decoded(found, GetParam());
    if (std::isinf(at)) {
      const double largest =
          GetParam() == ElementType::kBFloat16 ? 0x1.FFp127 : 0x1.FFEp15;  // half-way behind the last
      EXPECT_GE(std::abs(static_cast<double>(value)), largest);
      EXPECT_EQ(overflow, std::isinf(value) ? -1 : 0);
      continue;
    }
    EXPECT_EQ(overflow, -1);
    ASSERT_EQ(std::signbit(at), std::signbit(value));
    const double distance = std::abs(at - value);
    for (const int step : {-1, 1}) {
      if ((found & 0x7fff) == 0 && step < 0) continue;
      const double other = Decoded(static_cast<uint16_t>(found + step), GetParam());
      if (!std::isfinite(other)) continue;
      const double beside = std::abs(other - value);
      ASSERT_LE(distance, beside) << value;
      if (distance == beside) {
        ASSERT_EQ(found % 2, 0) << value;
      }
    }
  }
}

TEST(Float32, StaysAsItIs) {
  const std::vector<float> in = {1, -0.0F, std::numeric_limits<float>::infinity(), std::bit_cast<float>(0x7f800001u)};
  std::vector<uint32_t> out(4);
  EXPECT_EQ(EncodeFloats(in.data(), 4, ElementType::kFloat32, out.data()), -1);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i], std::bit_cast<uint32_t>(in[i]));
  EXPECT_TRUE(std::isnan(Decoded(Encoded(in[3], ElementType::kBFloat16), ElementType::kBFloat16)));
  EXPECT_TRUE(std::isnan(Decoded(Encoded(in[3], ElementType::kFloat16), ElementType::kFloat16)));
}

TEST(Float16, SaysWhatDoesNotFit) {
  const std::vector<float> in = {1, 65519, 65520, 1e9F};
  std::vector<uint16_t> out(4);
  EXPECT_EQ(EncodeFloats(in.data(), 4, ElementType::kFloat16, out.data()), 2);
  EXPECT_EQ(Decoded(out[1], ElementType::kFloat16), 65504);
}

}  // namespace
}  // namespace headscope::data
