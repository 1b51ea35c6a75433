// Colour maps as paths through OKLCH: lightness, chroma and hue by control points, so that lightness, which the eye
// orders by, is monotone by construction (on both arms of the diverging map). Conversion to sRGB by the published OKLab
// matrices; a colour outside sRGB loses chroma, never lightness.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "analysis/report.h"

namespace headscope::analysis {
namespace {

struct Point {
  double lightness, chroma, hue;  // OKLCH; hue in degrees, not wrapped, so that a path may pass 360
};
using Path = std::vector<Point>;
using Rgb = std::array<double, 3>;

Rgb ToLinearRgb(const Point& color) {
  const double angle = color.hue * std::numbers::pi / 180;
  const double a = color.chroma * std::cos(angle);
  const double b = color.chroma * std::sin(angle);
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(color.lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(color.lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(color.lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

bool InGamut(const Rgb& rgb) {
  return std::all_of(rgb.begin(), rgb.end(), [](double x) { return x >= 0 && x <= 1; });
}

uint8_t Encode(double linear) {
  const double value = std::clamp(linear, 0.0, 1.0);
  const double encoded = value <= 0.0031308 ? 12.92 * value : 1.055 * std::pow(value, 1 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(255 * encoded));
}

std::array<uint8_t, 3> ToBytes(Point color) {
  double inside = 0, outside = color.chroma;
  if (!InGamut(ToLinearRgb(color))) {
    for (int step = 0; step < 24; ++step) {
      color.chroma = (inside + outside) / 2;
      (InGamut(ToLinearRgb(color)) ? inside : outside) = color.chroma;
    }
    color.chroma = inside;
  }
  const Rgb rgb = ToLinearRgb(color);
  return {Encode(rgb[0]), Encode(rgb[1]), Encode(rgb[2])};
}

std::vector<uint8_t> Sample(const Path& path) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 256; ++i) {
    const double place = i / 255.0 * static_cast<double>(path.size() - 1);
    const size_t from = std::min(static_cast<size_t>(place), path.size() - 2);
    const double t = place - static_cast<double>(from);
    const Point& a = path[from];
    const Point& b = path[from + 1];
    const auto mix = [t](double x, double y) { return x + t * (y - x); };
    const auto rgb = ToBytes({mix(a.lightness, b.lightness), mix(a.chroma, b.chroma), mix(a.hue, b.hue)});
    bytes.insert(bytes.end(), rgb.begin(), rgb.end());
  }
  return bytes;
}

const std::map<std::string, std::vector<uint8_t>>& Maps() {
  static const std::map<std::string, std::vector<uint8_t>> maps = {
      {"viridis",
       Sample({{0.27, 0.13, 310}, {0.43, 0.12, 277}, {0.59, 0.10, 205}, {0.76, 0.16, 155}, {0.92, 0.19, 108}})},
      {"inferno", Sample({{0.02, 0.01, 285},
                          {0.24, 0.13, 295},
                          {0.44, 0.17, 350},
                          {0.62, 0.19, 395},
                          {0.80, 0.17, 430},
                          {0.98, 0.08, 467}})},
      {"gray", Sample({{0.12, 0.0, 0}, {1.0, 0.0, 0}})},
      {"coolwarm", Sample({{0.45, 0.17, 262},
                           {0.70, 0.10, 258},
                           {0.93, 0.01, 250},
                           {0.93, 0.01, 60},
                           {0.70, 0.11, 40},
                           {0.45, 0.18, 27}})},
  };
  return maps;
}

}  // namespace

const std::vector<std::string>& ColorMapNames() {
  static const std::vector<std::string> names = {"viridis", "inferno", "gray", "coolwarm"};
  return names;
}

const uint8_t* ColorMap(const std::string& name) {
  const auto found = Maps().find(name);
  return found == Maps().end() ? nullptr : found->second.data();
}

}  // namespace headscope::analysis
