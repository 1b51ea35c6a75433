// Small helpers of the files that draw over the map with ImGui's draw lists.
#pragma once

#include <string_view>

#include "imgui.h"
#include "view_transform.h"

namespace headscope::ui {

inline constexpr ImU32 kTextColor = IM_COL32(214, 214, 214, 255);
inline constexpr ImU32 kDimColor = IM_COL32(150, 150, 150, 255);
inline constexpr ImU32 kLineColor = IM_COL32(95, 95, 95, 255);
inline constexpr ImU32 kAccentColor = IM_COL32(255, 168, 72, 255);
inline constexpr ImU32 kMaskColor = IM_COL32(96, 190, 255, 255);

inline ImVec2 Point(double x, double y) {
  return {static_cast<float>(x), static_cast<float>(y)};
}

inline ImVec2 TextSize(std::string_view text) {
  return ImGui::CalcTextSize(text.data(), text.data() + text.size());
}

inline void DrawText(ImDrawList* list, double x, double y, ImU32 color, std::string_view text) {
  list->AddText(Point(x, y), color, text.data(), text.data() + text.size());
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
