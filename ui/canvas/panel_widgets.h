// SPDX-License-Identifier: Apache-2.0
// Small helpers of the files that draw the panel.
#pragma once

#include <string>

#include "imgui.h"

namespace headscope::ui {

// Controls that have a list (LivePanel::controls).
inline constexpr char kMethodControl[] = "method";
inline constexpr char kColorsControl[] = "colours";

inline constexpr float kDimmed = 0.55f;  // of numbers that belong to other parameters than those on show

// What the item before says while the pointer rests on it, disabled or not. Not while a button is held: help must not
// lie over what a hand is moving.
inline void HelpTooltip(const std::string& text) {
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled) || ImGui::IsMouseDown(ImGuiMouseButton_Left) ||
      text.empty())
    return;
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 26);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

inline void WrappedText(ImU32 color, const std::string& text) {
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
}

inline void ProblemText(const std::string& message) {
  WrappedText(IM_COL32(255, 140, 120, 255), message);
}

}  // namespace headscope::ui
