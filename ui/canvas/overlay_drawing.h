// SPDX-License-Identifier: Apache-2.0
// Small helpers of the files that draw over the map with ImGui's draw lists.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/types/ground.h"
#include "imgui.h"
#include "map_overlay.h"
#include "view_transform.h"

namespace headscope::ui {

constexpr ImU32 InkOf(const analysis::Rgb& color) {
  return IM_COL32(color.red, color.green, color.blue, 255);
}

inline constexpr ImU32 kTextColor = InkOf(analysis::kDarkGround.ink);
inline constexpr ImU32 kDimColor = IM_COL32(150, 150, 150, 255);
inline constexpr ImU32 kLineColor = IM_COL32(95, 95, 95, 255);
inline constexpr ImU32 kAccentColor = InkOf(analysis::kDarkGround.answer);
inline constexpr ImU32 kMaskColor = InkOf(analysis::kDarkGround.kept);

// The colours of what a picture shows as well as the window: the window's own, or ones for white paper.
struct OverlayInks {
  ImU32 text, dim, line, mask;
  ImU32 mass;      // bars of the profiles
  ImU32 attended;  // keys that a decode step sees
  ImU32 accent;    // frames and bars that point at something; text of that colour has a dark ground of its own
  // Lines through the whole map, which let it be seen below them.
  ImU32 crosshair, mark;
  ImU32 other_cursor;  // of the map beside
};
inline constexpr OverlayInks kDarkGroundInks = {.text = kTextColor,
                                                .dim = kDimColor,
                                                .line = kLineColor,
                                                .mask = kMaskColor,
                                                .mass = InkOf(analysis::kDarkGround.mass),
                                                .attended = InkOf(analysis::kDarkGround.attended),
                                                .accent = kAccentColor,
                                                .crosshair = IM_COL32(255, 168, 72, 130),
                                                .mark = IM_COL32(90, 230, 140, 230),
                                                .other_cursor = IM_COL32(120, 200, 255, 125)};
inline constexpr OverlayInks kLightGroundInks = {.text = InkOf(analysis::kLightGround.ink),
                                                 .dim = IM_COL32(88, 88, 94, 255),
                                                 .line = IM_COL32(120, 120, 126, 255),
                                                 .mask = InkOf(analysis::kLightGround.kept),
                                                 .mass = InkOf(analysis::kLightGround.mass),
                                                 .attended = InkOf(analysis::kLightGround.attended),
                                                 .accent = InkOf(analysis::kLightGround.answer),
                                                 .crosshair = IM_COL32(176, 92, 0, 210),
                                                 .mark = IM_COL32(0, 120, 60, 230),
                                                 .other_cursor = IM_COL32(0, 98, 190, 185)};

inline const OverlayInks& InksOf(const OverlayOptions& options) {
  return options.ground == PictureGround::kLight ? kLightGroundInks : kDarkGroundInks;
}

inline ImVec2 Point(double x, double y) {
  return {static_cast<float>(x), static_cast<float>(y)};
}

// The height of a pixel of the screen, of which a point of the window may have several; and the last edge between two
// of them up to `at`. A bar whose ends are such edges is drawn sharply.
inline double DevicePixel() {
  return 1 / static_cast<double>(ImGui::GetIO().DisplayFramebufferScale.y);
}
inline double OnDevicePixel(double at) {
  const auto scale = static_cast<double>(ImGui::GetIO().DisplayFramebufferScale.y);
  return std::floor(at * scale) / scale;
}

inline ImVec2 TextSize(std::string_view text) {
  return ImGui::CalcTextSize(text.data(), text.data() + text.size());
}

inline void DrawText(ImDrawList* list, double x, double y, ImU32 color, std::string_view text) {
  list->AddText(Point(x, y), color, text.data(), text.data() + text.size());
}

// The text, or as much of it as fits into `width` pixels with an ellipsis behind it.
inline std::string ElidedText(const std::string& text, double width) {
  if (static_cast<double>(TextSize(text).x) <= width) return text;
  std::string kept = text;
  const auto fits = [&] { return static_cast<double>(TextSize(kept + "…").x) <= width; };
  while (!kept.empty() && !fits()) {
    // A character of several bytes goes as a whole.
    while (kept.size() > 1 && (static_cast<unsigned char>(kept.back()) & 0xC0U) == 0x80U) kept.pop_back();
    kept.pop_back();
  }
  return kept + "…";
}

// The first of the parts, with commas between them, as many as fit into `width` pixels; of the first one what fits.
inline std::string FirstPartsWithin(const std::vector<std::string>& parts, double width) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string longer = i == 0 ? parts[i] : text + ", " + parts[i];
    if (static_cast<double>(TextSize(longer).x) > width) return i == 0 ? ElidedText(longer, width) : text;
    text = longer;
  }
  return text;
}

// The text in lines of at most `width` pixels, broken between words; a word that is longer stands alone.
inline std::vector<std::string> WrappedLines(const std::string& text, double width) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!lines.empty() && static_cast<double>(TextSize(lines.back() + " " + word).x) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
    begin = end + 1;
  }
  return lines;
}

// Text inside a rectangle, cut at its edges.
inline void DrawClippedText(ImDrawList* list, const PixelRect& rect, double x, double y, ImU32 color,
                            std::string_view text) {
  const ImVec4 clip{static_cast<float>(rect.x), static_cast<float>(rect.y), static_cast<float>(rect.right()),
                    static_cast<float>(rect.bottom())};
  list->AddText(nullptr, 0, Point(x, y), color, text.data(), text.data() + text.size(), 0, &clip);
}

inline void PushClip(ImDrawList* list, const PixelRect& rect) {
  list->PushClipRect(Point(rect.x, rect.y), Point(rect.right(), rect.bottom()), true);
}

}  // namespace headscope::ui
