// SPDX-License-Identifier: Apache-2.0
#include "base/byte_text.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace headscope {
namespace {

constexpr double kKibi = 1024;
constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

// Place of the largest unit that `bytes` has one of.
size_t UnitOf(double bytes) {
  size_t unit = 0;
  for (; bytes >= kKibi && unit + 1 < kUnits.size(); ++unit) bytes /= kKibi;
  return unit;
}

// The number of such units, without the unit's name.
std::string InUnit(double bytes, size_t unit) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f" : "%.1f", bytes / std::pow(kKibi, unit));
  return text.data();
}

}  // namespace

std::string ByteText(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  const size_t unit = UnitOf(value);
  return InUnit(value, unit) + " " + kUnits.at(unit);
}

std::string ByteText(int64_t done, int64_t total) {
  return InUnit(static_cast<double>(done), UnitOf(static_cast<double>(total))) + " of " + ByteText(total);
}

}  // namespace headscope
