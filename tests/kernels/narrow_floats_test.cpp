// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16 by their definition, in float64: no code here shares a formula with the header.
#include "kernels/narrow_floats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <string>

namespace headscope::kernels {
namespace {

struct NarrowFormat {
  const char* name;
  uint16_t (*round)(float);
  float (*read)(uint16_t);
  int fraction_bits, exponent_bias, exponent_bits;

  uint16_t Infinity() const { return static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits); }
  uint16_t Quiet() const { return static_cast<uint16_t>(1 << (fraction_bits - 1)); }
  // What a code says: sign, exponent, fraction. Not of infinities and NaN.
  double Value(uint16_t code) const {
    const int fraction = code & ((1 << fraction_bits) - 1), exponent = (code & 0x7fff) >> fraction_bits;
    const double significand = std::ldexp(fraction, -fraction_bits) + (exponent > 0 ? 1 : 0);
    const double magnitude = std::ldexp(significand, std::max(exponent, 1) - exponent_bias);
    return (code & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

void PrintTo(const NarrowFormat& format, std::ostream* out) {
  *out << format.name;
}

class NarrowFloats : public ::testing::TestWithParam<NarrowFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, NarrowFloats,
                         ::testing::Values(NarrowFormat{"bf16", &RoundToBFloat16, &FloatFromBFloat16, 7, 127, 8},
                                           NarrowFormat{"fp16", &RoundToFloat16, &FloatFromFloat16, 10, 15, 5}),
                         [](const auto& named) { return std::string(named.param.name); });

TEST_P(NarrowFloats, EveryCodeIsReadAsItsNumberAndRoundsToItself) {
  const NarrowFormat& format = GetParam();
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto code = static_cast<uint16_t>(bits);
    if ((code & format.Infinity()) == format.Infinity()) continue;
    ASSERT_EQ(static_cast<double>(format.read(code)), format.Value(code)) << bits;
    ASSERT_EQ(std::signbit(format.read(code)), (code & 0x8000) != 0) << bits;
    ASSERT_EQ(format.round(format.read(code)), code);
  }
}

TEST_P(NarrowFloats, TakesTheNearestAndOfTwoTheEven) {
  const NarrowFormat& format = GetParam();
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    // Two neighbours, and a number of fp32 between them: half-way, one step beside that, or anywhere.
    const auto below = static_cast<uint16_t>(random() % (format.Infinity() - 1u));
    const auto above = static_cast<uint16_t>(below + 1);
    const double low = format.Value(below), high = format.Value(above), middle = low + (high - low) / 2;
    float value = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(value), middle) << "half-way is a number of fp32";
    if (i % 4 == 1) value = std::nextafter(value, 0.0f);
    if (i % 4 == 2) value = std::nextafter(value, std::numeric_limits<float>::infinity());
    if (i % 4 == 3) value = static_cast<float>(low + (high - low) * (static_cast<double>(random() % 1024) / 1024));
    const double at = static_cast<double>(value);
    const uint16_t nearest = at < middle ? below : at > middle ? above : below % 2 == 0 ? below : above;
    ASSERT_EQ(format.round(value), nearest) << value;
    ASSERT_EQ(format.round(-value), nearest | 0x8000) << -value;
  }
}

TEST_P(NarrowFloats, HalfAStepAboveTheLargestIsInfinity) {
  const NarrowFormat& format = GetParam();
  const auto largest = static_cast<uint16_t>(format.Infinity() - 1);
  const double step = format.Value(largest) - format.Value(static_cast<uint16_t>(largest - 1));
  const auto edge = static_cast<float>(format.Value(largest) + step / 2);
  EXPECT_EQ(format.round(edge), format.Infinity());
  EXPECT_EQ(format.round(-edge), format.Infinity() | 0x8000);
  EXPECT_EQ(format.round(std::nextafter(edge, 0.0f)), largest);
  EXPECT_EQ(format.round(std::numeric_limits<float>::max()), format.Infinity());
  EXPECT_EQ(format.round(std::numeric_limits<float>::infinity()), format.Infinity());
  EXPECT_EQ(format.round(-std::numeric_limits<float>::infinity()), format.Infinity() | 0x8000);
  EXPECT_TRUE(std::isinf(format.read(format.Infinity())));
}

// Whatever its payload: in the highest bits, in the lowest alone (which a plain cut makes an infinity of), or all ones
// (which a plain rounding makes a zero of).
TEST_P(NarrowFloats, NaNStaysNaNAndIsQuiet) {
  const NarrowFormat& format = GetParam();
  for (const uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0x7fa00000u, 0x7f80ffffu, 0x7f807fffu}) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const uint16_t code = format.round(std::bit_cast<float>(bits | sign));
      EXPECT_TRUE(std::isnan(format.read(code))) << std::hex << bits;
      EXPECT_EQ(code & format.Quiet(), format.Quiet()) << std::hex << bits;
      EXPECT_EQ((code & 0x8000) != 0, sign != 0) << std::hex << bits;
    }
  }
}

}  // namespace
}  // namespace headscope::kernels
