// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/color_map.h"

#include <algorithm>
#include <cmath>

namespace headscope::analysis {
namespace {

struct Anchors {
  const char* name;
  ColorMapKind kind;
  std::vector<uint32_t> colors;  // 0xRRGGBB, evenly spaced; interpolated linearly in sRGB
};

// A dozen anchors each: the eye cannot tell the interpolation from the full tables (viridis, magma and inferno: CC0;
// cividis: CC BY 4.0, Nunez et al. 2018; turbo: Apache-2.0). "coolwarm" is our own: lightness 0.45 to 0.93 and back in
// OKLCH, hue 262 to the left and 27 to the right.
const std::vector<Anchors>& AllAnchors() {
  constexpr ColorMapKind kSequential = ColorMapKind::kSequential, kDiverging = ColorMapKind::kDiverging;
  static const std::vector<Anchors> all = {
      {"viridis",
       kSequential,
       {0x440154, 0x482475, 0x414487, 0x355f8d, 0x2a788e, 0x21918c, 0x22a884, 0x44bf70, 0x7ad151, 0xbddf26, 0xfde725}},
      {"magma",
       kSequential,
       {0x000004, 0x140e36, 0x3b0f70, 0x641a80, 0x8c2981, 0xb73779, 0xde4968, 0xf7705c, 0xfe9f6d, 0xfecf92, 0xfcfdbf}},
      {"inferno",
       kSequential,
       {0x000004, 0x160b39, 0x420a68, 0x6a176e, 0x932667, 0xbc3754, 0xdd513a, 0xf37819, 0xfca50a, 0xf6d746, 0xfcffa4}},
      {"cividis",
       kSequential,
       {0x00224e, 0x123570, 0x3b496c, 0x575d6d, 0x707173, 0x8a8678, 0xa59c74, 0xc3b369, 0xe1cc55, 0xfee838}},
      {"turbo",
       kSequential,
       {0x30123b, 0x4145ab, 0x4675ed, 0x39a2fc, 0x1bcfd4, 0x24eca6, 0x61fc6c, 0xa4fc3b, 0xd1e834, 0xf3c63a, 0xfe9b2d,
        0xf36315, 0xd93806, 0xb11901, 0x7a0402}},
      {"gray", kSequential, {0x000000, 0xffffff}},
      {"ink", kSequential, {0xffffff, 0x000000}},  // for paper
      {"coolwarm",
       kDiverging,
       {0x194cb1, 0x3668bf, 0x5382cd, 0x719bda, 0x90b3e1, 0xb1cae7, 0xd4e0ec, 0xe0e6ec, 0xe8e8e8, 0xeae3dc, 0xebdbd0,
        0xe5bea8, 0xde9f83, 0xd58063, 0xc66046, 0xb43d2c, 0xa20711}},
  };
  return all;
}

Palette MakePalette(const std::vector<uint32_t>& colors) {
  Palette palette;
  const auto last = static_cast<double>(colors.size() - 1);
  for (size_t i = 0; i < palette.size(); ++i) {
    const double place = static_cast<double>(i) / 255 * last;
    const size_t left = std::min(static_cast<size_t>(place), colors.size() - 2);
    const double share = place - static_cast<double>(left);
    const auto channel = [&](int shift) {
      const auto from = static_cast<double>((colors[left] >> shift) & 0xff);
      const auto to = static_cast<double>((colors[left + 1] >> shift) & 0xff);
      return static_cast<uint8_t>(std::lround(from + (to - from) * share));
    };
    palette[i] = {channel(16), channel(8), channel(0)};
  }
  return palette;
}

}  // namespace

const std::vector<ColorMap>& ColorMaps() {
  static const std::vector<ColorMap> maps = [] {
    std::vector<ColorMap> made;
    for (const Anchors& anchors : AllAnchors())
      made.push_back({anchors.name, anchors.kind, MakePalette(anchors.colors)});
    return made;
  }();
  return maps;
}

const ColorMap* FindColorMap(const std::string& name) {
  const std::vector<ColorMap>& maps = ColorMaps();
  const auto found = std::find_if(maps.begin(), maps.end(), [&](const ColorMap& map) { return map.name == name; });
  return found == maps.end() ? nullptr : &*found;
}

const Palette& SequentialPalette() {
  static const Palette& palette = FindColorMap("viridis")->palette;
  return palette;
}

const Palette& DivergingPalette() {
  static const Palette& palette = FindColorMap("coolwarm")->palette;
  return palette;
}

Rgb ColorAt(const Palette& palette, double place) {
  const double inside = std::isnan(place) ? 0.0 : std::clamp(place, 0.0, 1.0);
  return palette[static_cast<size_t>(std::lround(inside * 255))];
}

}  // namespace headscope::analysis
