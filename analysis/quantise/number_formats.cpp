// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/quantise.h"

namespace headscope::analysis {
namespace {

constexpr int32_t kMxfp4Block = 32;  // of MXFP4 (OCP Microscaling Formats, version 1.0)

// The nearest multiple of 2^exponent, ties to even.
float ToMultiple(float value, int exponent) {
  return std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
}

// A float with `mantissa` bits behind the point, whose smallest normal number is 2^least.
float ToFloat(float value, int mantissa, int least, float largest) {
  if (value == 0) return 0;
  const int exponent = std::max(std::ilogb(value), least);
  return std::clamp(ToMultiple(value, exponent - mantissa), -largest, largest);
}

float LargestMagnitude(std::span<const float> values, size_t begin, size_t count, size_t stride) {
  float largest = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(values[begin + i * stride]));
  return largest;
}

void RoundRun(NumberFormat format, float scale, size_t begin, size_t count, size_t stride, std::span<float> values) {
  for (size_t i = 0; i < count; ++i) {
    float& value = values[begin + i * stride];
    value = scale == 0 ? 0 : Rounded(value / scale, format) * scale;
  }
}

// The power of two of a microscaling block: that of its largest value, less the format's largest exponent.
float BlockScale(float largest) {
  constexpr int kLargestExponent = 2;  // of e2m1: 6 = 1.5 * 2^2
  return largest == 0 ? 0 : std::ldexp(1.0f, std::ilogb(largest) - kLargestExponent);
}

}  // namespace

std::span<const NumberFormat> AllNumberFormats() {
  static constexpr std::array kFormats = {NumberFormat::kFp8E4m3, NumberFormat::kInt8, NumberFormat::kInt4,
                                          NumberFormat::kMxfp4};
  return kFormats;
}

std::span<const ScaleGroup> ChosenScaleGroups() {
  static constexpr std::array kGroups = {ScaleGroup::kTensor, ScaleGroup::kHead, ScaleGroup::kChannel,
                                         ScaleGroup::kToken};
  return kGroups;
}

const char* NameOf(NumberFormat format) {
  constexpr std::array kNames = {"fp8-e4m3", "int8", "int4", "mxfp4"};
  return kNames[static_cast<size_t>(format)];
}

const char* NameOf(ScaleGroup group) {
  constexpr std::array kNames = {"tensor", "head", "channel", "token", "block"};
  return kNames[static_cast<size_t>(group)];
}

float LargestNumber(NumberFormat format) {
  constexpr std::array kLargest = {448.0f, 127.0f, 7.0f, 6.0f};
  return kLargest[static_cast<size_t>(format)];
}

float Rounded(float value, NumberFormat format) {
  const float largest = LargestNumber(format);
  switch (format) {
    case NumberFormat::kFp8E4m3:
      return ToFloat(value, 3, -6, largest);
    case NumberFormat::kMxfp4:
      return ToFloat(value, 1, 0, largest);
    case NumberFormat::kInt8:
    case NumberFormat::kInt4:
      break;
  }
  return std::clamp(ToMultiple(value, 0), -largest, largest);
}

void TurnByHadamard(std::span<float> values, int32_t dim) {
  const auto size = static_cast<size_t>(dim & -dim);
  const float norm = 1 / std::sqrt(static_cast<float>(size));
  for (size_t begin = 0; begin < values.size(); begin += size) {
    for (size_t half = 1; half < size; half *= 2) {
      for (size_t i = begin; i < begin + size; ++i) {
        if (((i - begin) & half) != 0) continue;
        const float a = values[i], b = values[i + half];
        values[i] = a + b;
        values[i + half] = a - b;
      }
    }
    for (size_t i = begin; i < begin + size; ++i) values[i] *= norm;
  }
}

std::vector<float> RoundTo(const Quantisation& quantisation, float largest, int32_t dim, std::span<float> values) {
  const NumberFormat format = quantisation.format;
  const float most = LargestNumber(format);
  const auto width = static_cast<size_t>(dim);
  const size_t rows = values.size() / width;
  std::vector<float> scales;
  const auto round = [&](float scale, size_t begin, size_t count, size_t stride) {
    RoundRun(format, scale, begin, count, stride, values);
    scales.push_back(scale);
  };
  if (quantisation.hadamard) TurnByHadamard(values, dim);
  switch (format == NumberFormat::kMxfp4 ? ScaleGroup::kBlock : quantisation.group) {
    case ScaleGroup::kTensor:
      round(largest / most, 0, values.size(), 1);
      break;
    case ScaleGroup::kHead:
      round(LargestMagnitude(values, 0, values.size(), 1) / most, 0, values.size(), 1);
      break;
    case ScaleGroup::kChannel:
      for (size_t i = 0; i < width; ++i) round(LargestMagnitude(values, i, rows, width) / most, i, rows, width);
      break;
    case ScaleGroup::kToken:
      for (size_t row = 0; row < rows; ++row)
        round(LargestMagnitude(values, row * width, width, 1) / most, row * width, width, 1);
      break;
    case ScaleGroup::kBlock:
      for (size_t row = 0; row < rows; ++row) {
        for (size_t i = 0; i < width; i += kMxfp4Block) {
          const size_t count = std::min<size_t>(kMxfp4Block, width - i);
          const float of_block = LargestMagnitude(values, row * width + i, count, 1);
          round(format == NumberFormat::kMxfp4 ? BlockScale(of_block) : of_block / most, row * width + i, count, 1);
        }
      }
      break;
  }
  if (quantisation.hadamard) TurnByHadamard(values, dim);
  return scales;
}

}  // namespace headscope::analysis
