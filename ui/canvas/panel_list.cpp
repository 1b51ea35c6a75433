// SPDX-License-Identifier: Apache-2.0
#include "panel_list.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>
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

std::string InSmallLetters(std::string text) {
  // Of ASCII: names and papers of methods are that.
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter; });
  return text;
}

}  // namespace

void PanelList::Filter() {
  std::vector<std::string> words;
  std::istringstream typed(InSmallLetters(filter_));
  for (std::string word; typed >> word;) words.push_back(word);
  const auto has_all = [&](std::string_view text) {
    return std::all_of(words.begin(), words.end(),
                       [text](const std::string& word) { return text.find(word) != std::string_view::npos; });
  };
  in_sight_.clear();
  std::optional<size_t> named;  // the first that is called so
  for (size_t i = 0; i < searched_.size(); ++i) {
    if (!has_all(searched_[i])) continue;
    in_sight_.push_back(i);
    if (!named && has_all(std::string_view(searched_[i]).substr(0, searched_[i].find('\n')))) named = i;
  }
  if (!words.empty() && !in_sight_.empty()) candidate_ = named.value_or(in_sight_.front());
  show_candidate_ = true;
}

bool PanelList::HandleText(const std::string& letters) {
  if (!is_open_ || letters.empty() || (filter_.empty() && letters == " ")) return false;
  filter_ += letters;
  Filter();
  return true;
}

bool PanelList::EraseText() {
  if (!is_open_ || filter_.empty()) return false;
  // A letter may be several bytes.
  while (filter_.size() > 1 && (static_cast<unsigned char>(filter_.back()) & 0xC0U) == 0x80U) filter_.pop_back();
  filter_.pop_back();
  Filter();
  return true;
}

void PanelList::Move(int by) {
  if (in_sight_.empty()) return;
  const auto at = std::find(in_sight_.begin(), in_sight_.end(), candidate_) - in_sight_.begin();
  candidate_ = in_sight_[static_cast<size_t>(std::clamp<std::ptrdiff_t>(at + by, 0, std::ssize(in_sight_) - 1))];
}

bool PanelList::HandleKey(PanelKey key) {
  if (!is_open_ || searched_.empty()) return false;
  const size_t before = candidate_;
  switch (key) {
    case PanelKey::kUp:
      Move(-1);
      break;
    case PanelKey::kDown:
      Move(+1);
      break;
    case PanelKey::kHome:
      Move(-static_cast<int>(searched_.size()));
      break;
    case PanelKey::kEnd:
      Move(+static_cast<int>(searched_.size()));
      break;
    case PanelKey::kActivate:
      pick_ = !in_sight_.empty();
      break;
    case PanelKey::kEscape:
      if (!filter_.empty()) {
        filter_.clear();
        Filter();
        return true;
      }
      close_ = true;
      break;
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
  picked_.reset();
  searched_.clear();
  std::string heading;
  for (const PanelListEntry& entry : entries) {
    if (!entry.heading.empty()) heading = entry.heading;
    searched_.push_back(InSmallLetters(entry.text + '\n' + heading + '\n' + entry.help));
  }
  const bool pressed = DrawField(id, width, entries[present].text);
  const ImVec2 min = ImGui::GetItemRectMin(), max = ImGui::GetItemRectMax();
  const std::string popup = std::string("##list_of_") + id;
  if (pressed || std::exchange(open_, false)) {
    ImGui::OpenPopup(popup.c_str());
    candidate_ = present;
    filter_.clear();
    Filter();
  }
  // Below the field, or as much higher as all of it needs.
  const auto headings =
      std::count_if(entries.begin(), entries.end(), [](const PanelListEntry& entry) { return !entry.heading.empty(); });
  const float lines = static_cast<float>(entries.size()) + static_cast<float>(headings) + 1;  // the filter's
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
  ImGui::Dummy({0, ImGui::GetTextLineHeight()});  // DrawFilter's
  size_t next = 0;                                // the first entry whose heading has not been drawn or passed over
  for (const size_t i : in_sight_) {
    if (i >= entries.size()) continue;  // there are fewer than when it was opened
    const PanelListEntry& entry = entries[i];
    const std::string* heading = nullptr;
    for (; next <= i; ++next) {
      if (!entries[next].heading.empty()) heading = &entries[next].heading;
    }
    if (heading != nullptr) ImGui::TextDisabled("%s", heading->c_str());
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
  if (in_sight_.empty()) ImGui::TextDisabled("None has that in its name, its help or its source.");
  DrawFilter(entries.size());
  if (pick_ && candidate_ < entries.size()) picked_ = candidate_;
}

// Stays at the top while the entries scroll.
void PanelList::DrawFilter(size_t num_entries) const {
  const ImGuiStyle& style = ImGui::GetStyle();
  const ImVec2 at = ImGui::GetWindowPos();
  const float width = ImGui::GetWindowWidth() - (ImGui::GetScrollMaxY() > 0 ? style.ScrollbarSize : 0);
  const float bottom = at.y + style.WindowPadding.y + ImGui::GetTextLineHeight() + style.ItemSpacing.y / 2;
  ImDrawList* const list = ImGui::GetWindowDrawList();
  list->PushClipRect({at.x + 1, at.y + 1}, {at.x + width - 1, bottom});
  list->AddRectFilled({at.x, at.y}, {at.x + width, bottom}, ImGui::GetColorU32(ImGuiCol_PopupBg));
  const std::string text =
      filter_.empty() ? "Type to filter"
                      : filter_ + "_   " + std::to_string(in_sight_.size()) + " of " + std::to_string(num_entries);
  list->AddText({at.x + style.WindowPadding.x, at.y + style.WindowPadding.y},
                ImGui::GetColorU32(filter_.empty() ? ImGuiCol_TextDisabled : ImGuiCol_Text), text.c_str());
  list->PopClipRect();
}

}  // namespace headscope::ui
