#include "color_map.h"

#include <algorithm>
#include <cmath>

namespace headscope::ui {

namespace {

struct ColorMap {
  const char* name;
  std::vector<uint32_t> anchors;  // 0xRRGGBB, evenly spaced; interpolated linearly in sRGB
};

// A dozen anchors each: the eye cannot tell the interpolation from the full tables (viridis and magma: CC0, cividis: CC
// BY 4.0 by Nunez et al. 2018, turbo: Apache-2.0).
const std::vector<ColorMap>& ColorMaps() {
  static const std::vector<ColorMap> maps = {
      {"viridis",
       {0x440154, 0x482475, 0x414487, 0x355f8d, 0x2a788e, 0x21918c, 0x22a884, 0x44bf70, 0x7ad151, 0xbddf26, 0xfde725}},
      {"magma",
       {0x000004, 0x140e36, 0x3b0f70, 0x641a80, 0x8c2981, 0xb73779, 0xde4968, 0xf7705c, 0xfe9f6d, 0xfecf92, 0xfcfdbf}},
      {"cividis", {0x00224e, 0x123570, 0x3b496c, 0x575d6d, 0x707173, 0x8a8678, 0xa59c74, 0xc3b369, 0xe1cc55, 0xfee838}},
      {"turbo",
       {0x30123b, 0x4145ab, 0x4675ed, 0x39a2fc, 0x1bcfd4, 0x24eca6, 0x61fc6c, 0xa4fc3b, 0xd1e834, 0xf3c63a, 0xfe9b2d,
        0xf36315, 0xd93806, 0xb11901, 0x7a0402}},
      {"grey", {0x000000, 0xffffff}},
      {"ink", {0xffffff, 0x000000}},  // for paper
  };
  return maps;
}

Palette MakePalette(const std::vector<uint32_t>& anchors) {
  Palette palette;
  const auto last = static_cast<float>(anchors.size() - 1);
  for (size_t i = 0; i < palette.size(); ++i) {
    const float position = static_cast<float>(i) / 255.0f * last;
    const size_t left = std::min(static_cast<size_t>(position), anchors.size() - 2);
    const float share = position - static_cast<float>(left);
    const auto channel = [&](int shift) {
      const auto from = static_cast<float>((anchors[left] >> shift) & 0xff);
      const auto to = static_cast<float>((anchors[left + 1] >> shift) & 0xff);
      return static_cast<uint8_t>(std::lround(from + (to - from) * share));
    };
    palette[i] = {channel(16), channel(8), channel(0)};
  }
  return palette;
}

}  // namespace

const std::vector<std::string>& ColorMapNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const ColorMap& map : ColorMaps()) result.emplace_back(map.name);
    return result;
  }();
  return names;
}

int ColorMapIndex(const std::string& name) {
  const auto& names = ColorMapNames();
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

const Palette& ColorMapPalette(int index) {
  static const std::vector<Palette> palettes = [] {
    std::vector<Palette> result;
    for (const ColorMap& map : ColorMaps()) result.push_back(MakePalette(map.anchors));
    return result;
  }();
  return palettes[static_cast<size_t>(std::clamp(index, 0, static_cast<int>(palettes.size()) - 1))];
}

float ScalePosition(float log2_p, const ValueRange& range, bool logarithmic) {
  float position = 0;
  if (logarithmic) {
    position = (log2_p - range.minimum_log2) / (range.maximum_log2 - range.minimum_log2);
  } else {
    const float low = std::exp2(range.minimum_log2);
    position = (std::exp2(log2_p) - low) / (std::exp2(range.maximum_log2) - low);
  }
  return std::isnan(position) ? 0.0f : std::clamp(position, 0.0f, 1.0f);
}

float ScaleValue(float position, const ValueRange& range, bool logarithmic) {
  if (logarithmic) return range.minimum_log2 + position * (range.maximum_log2 - range.minimum_log2);
  const float low = std::exp2(range.minimum_log2);
  return std::log2(low + position * (std::exp2(range.maximum_log2) - low));
}

}  // namespace headscope::ui
