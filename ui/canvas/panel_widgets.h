// SPDX-License-Identifier: Apache-2.0
// Small helpers of the files that draw the panel.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/utf8.h"
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

// Inks of the panel that mean something, each with one for a light window and one for a dark one.
inline ImU32 PanelInk(ImU32 on_light, ImU32 on_dark) {
  return ImGui::GetStyle().Colors[ImGuiCol_WindowBg].x > 0.5f ? on_light : on_dark;
}
inline ImU32 NoteInk() {
  return PanelInk(IM_COL32(134, 76, 0, 255), IM_COL32(255, 200, 120, 255));
}
inline ImU32 ProblemInk() {
  return PanelInk(IM_COL32(176, 24, 16, 255), IM_COL32(255, 140, 120, 255));
}

// How much of a word that is wider than the room stands on one line: up to its last comma or slash there, for such
// words are lists of parameters and paths; else as many characters as fit. One at least.
inline size_t BytesThatFit(const std::string& word, float width) {
  const char *const begin = word.c_str(), *const end = begin + word.size(), *fits = begin;
  ImGui::GetFont()->CalcTextSizeA(ImGui::GetFontSize(), std::floor(width), 0, begin, end, &fits);
  auto bytes = static_cast<size_t>(fits - begin);
  if (bytes == 0) {
    for (bytes = 1; bytes < word.size() && IsInsideCharacter(word[bytes]);) ++bytes;
    return bytes;
  }
  const size_t mark = word.find_last_of(",/", bytes - 1);
  return mark == std::string::npos || mark == 0 ? bytes : mark + 1;  // a path begins with one
}

// The text in lines that fit into what is left of the window's width, broken at spaces, and elsewhere only inside a
// word that no line has room for. Dear ImGui's own wrapping breaks behind every point: "2." and, below it, "1×".
inline std::string InLines(const std::string& text) {
  const float width = ImGui::GetContentRegionAvail().x;
  std::string lines, line;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    std::string longer = line;
    if (!line.empty()) longer += ' ';
    longer += word;
    if (!line.empty() && ImGui::CalcTextSize(longer.c_str()).x > width) {
      lines += line;
      lines += '\n';
      line = word;
    } else {
      line = longer;
    }
    // Of several words the line fits, so this is one.
    while (!line.empty() && ImGui::CalcTextSize(line.c_str()).x > width) {
      const size_t bytes = BytesThatFit(line, width);
      if (bytes == line.size()) break;
      lines += line.substr(0, bytes);
      lines += '\n';
      line.erase(0, bytes);
    }
    if (end < text.size() && text[end] == '\n') {
      lines += std::exchange(line, {});
      lines += '\n';
    }
    begin = end + 1;
  }
  return lines + line;
}

inline void WrappedText(const std::string& text) {
  ImGui::TextUnformatted(InLines(text).c_str());
}

inline void WrappedText(ImU32 color, const std::string& text) {
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  WrappedText(text);
  ImGui::PopStyleColor();
}

inline void ProblemText(const std::string& message) {
  WrappedText(ProblemInk(), message);
}

}  // namespace headscope::ui
