// SPDX-License-Identifier: Apache-2.0
#include "panel_list.h"

#include <algorithm>
#include <utility>

#include "overlay_drawing.h"
#include "panel_widgets.h"

namespace headscope::ui {

namespace {

constexpr float kMargin = 8;  // between the list and the canvas' edge

// The field: its text at the left, an arrow at the right.
bool DrawField(const char* id, float width, const std::string& text) {
  const ImGuiStyle& style = ImGui::GetStyle();
  ImGui::PushStyleVar(ImGuiStyleVar_ButtonTextAlign, {0, 0.5f});
  ImGui::PushStyleColor(ImGuiCol_Button, style.Colors[ImGuiCol_FrameBg]);
  ImGui::PushStyleColor(ImGuiCol_ButtonHovered, style.Colors[ImGuiCol_FrameBgHovered]);
  ImGui::PushStyleColor(ImGuiCol_ButtonActive, style.Colors[ImGuiCol_FrameBgActive]);
  const bool pressed = ImGui::Button((text + "###" + id).c_str(), {width, 0});
  ImGui::PopStyleColor(3);
  ImGui::PopStyleVar();
  const ImVec2 min = ImGui::GetItemRectMin(), max = ImGui::GetItemRectMax();
  const float height = max.y - min.y, x = max.x - height / 2, y = min.y + height / 2, half = height * 0.2f;
  ImDrawList* const list = ImGui::GetWindowDrawList();
  list->AddRectFilled({max.x - height, min.y}, max, ImGui::GetColorU32(ImGuiCol_Button), style.FrameRounding,
                      ImDrawFlags_RoundCornersRight);
  list->AddTriangleFilled({x - half, y - half * 0.6f}, {x + half, y - half * 0.6f}, {x, y + half},
                          ImGui::GetColorU32(ImGuiCol_Text));
  return pressed;
}

}  // namespace

bool PanelList::HandleKey(PanelKey key) {
  if (!is_open_ || num_entries_ == 0) return false;
  const size_t before = candidate_;
  switch (key) {
    case PanelKey::kUp:
      if (candidate_ > 0) --candidate_;
      break;
    case PanelKey::kDown:
      candidate_ = std::min(candidate_ + 1, num_entries_ - 1);
      break;
    case PanelKey::kHome:
      candidate_ = 0;
      break;
    case PanelKey::kEnd:
      candidate_ = num_entries_ - 1;
      break;
    case PanelKey::kActivate:
      pick_ = true;
      break;
    case PanelKey::kEscape:
    case PanelKey::kList:
      close_ = true;
      break;
    case PanelKey::kLeft:
    case PanelKey::kRight:
      break;
  }
  show_candidate_ = candidate_ != before;
  return true;
}

std::optional<size_t> PanelList::Draw(const char* id, float width, const std::vector<PanelListEntry>& entries,
                                      size_t present, const Mark& mark) {
  num_entries_ = entries.size();
  picked_.reset();
  const bool pressed = DrawField(id, width, entries[present].text);
  const ImVec2 min = ImGui::GetItemRectMin(), max = ImGui::GetItemRectMax();
  const std::string popup = std::string("##list_of_") + id;
  if (pressed || std::exchange(open_, false)) {
    ImGui::OpenPopup(popup.c_str());
    candidate_ = present;
    show_candidate_ = true;
  }
  // Below the field, or as much higher as all of it needs.
  const auto headings =
      std::count_if(entries.begin(), entries.end(), [](const PanelListEntry& entry) { return !entry.heading.empty(); });
  const float lines = static_cast<float>(entries.size()) + static_cast<float>(headings);
  const float wanted = lines * ImGui::GetTextLineHeightWithSpacing() + 2 * ImGui::GetStyle().WindowPadding.y;
  const float canvas = ImGui::GetIO().DisplaySize.y - kMargin;
  const float top = std::max(kMargin, std::min(max.y, canvas - wanted));
  ImGui::SetNextWindowPos({min.x, top});
  ImGui::SetNextWindowSizeConstraints({max.x - min.x, 0}, {max.x - min.x, canvas - top});
  ImGui::SetNextWindowBgAlpha(1);
  is_open_ = ImGui::BeginPopup(popup.c_str(), ImGuiWindowFlags_NoMove);
  if (is_open_) {
    DrawEntries(entries, present, mark);
    if (close_ || picked_) ImGui::CloseCurrentPopup();
    ImGui::EndPopup();
    is_open_ = !close_ && !picked_;
  }
  close_ = pick_ = false;
  return picked_;
}

void PanelList::DrawEntries(const std::vector<PanelListEntry>& entries, size_t present, const Mark& mark) {
  candidate_ = std::min(candidate_, entries.size() - 1);
  for (size_t i = 0; i < entries.size(); ++i) {
    const PanelListEntry& entry = entries[i];
    if (!entry.heading.empty()) ImGui::TextDisabled("%s", entry.heading.c_str());
    if (i == present) ImGui::PushStyleColor(ImGuiCol_Text, NoteInk());
    if (ImGui::Selectable(entry.text.c_str(), i == candidate_)) picked_ = i;
    if (i == present) ImGui::PopStyleColor();
    // The pointer and the keys move one and the same mark; a pointer at rest leaves it to the keys.
    const ImVec2 moved = ImGui::GetIO().MouseDelta;
    if (ImGui::IsItemHovered() && (moved.x != 0 || moved.y != 0)) candidate_ = i;
    if (i == candidate_ && std::exchange(show_candidate_, false) && !ImGui::IsItemVisible()) ImGui::SetScrollHereY();
    mark(entry.name);
    HelpTooltip(entry.help);
  }
  if (pick_) picked_ = candidate_;
}

}  // namespace headscope::ui
