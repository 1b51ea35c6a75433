// SPDX-License-Identifier: Apache-2.0
// Bookmarks on the map: a numbered pin where each begins, and the outline of what it is about.
#include "map_notes.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {
namespace {

constexpr double kCornerReach = 2;      // pixels: a bookmark of what is in view begins at its very corner
constexpr double kMostOfView = 0.98;    // an outline about all that is in view says nothing
constexpr size_t kMostTextBytes = 240;  // of a tooltip
constexpr ImU32 kPinInk = IM_COL32(40, 24, 4, 255);

bool Overlap(const PixelRect& a, const PixelRect& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

}  // namespace

std::vector<NotePin> PinsInView(const std::vector<MapNote>& notes, analysis::HeadId head, const ViewTransform& view) {
  std::vector<NotePin> pins;
  if (view.empty()) return pins;
  const PixelRect& map = view.viewport();
  for (size_t i = 0; i < notes.size(); ++i) {
    const MapNote& note = notes[i];
    if (note.head != head) continue;
    const double left = view.ColumnToX(static_cast<double>(note.column_begin)),
                 top = view.RowToY(static_cast<double>(note.row_begin));
    if (left < map.x - kCornerReach || left > map.right() - kPinWidth + kCornerReach || top < map.y - kCornerReach ||
        top > map.bottom() - kPinHeight + kCornerReach)
      continue;
    NotePin one{i, {left, top, kPinWidth, kPinHeight}, {left, top, 0, 0}};
    one.place.width = view.ColumnToX(static_cast<double>(note.column_end)) - left;
    one.place.height = view.RowToY(static_cast<double>(note.row_end)) - top;
    one.pin.x = std::clamp(one.pin.x, map.x, std::max(map.x, map.right() - kPinWidth));
    one.pin.y = std::clamp(one.pin.y, map.y, std::max(map.y, map.bottom() - kPinHeight));
    while (std::any_of(pins.begin(), pins.end(), [&](const NotePin& other) { return Overlap(other.pin, one.pin); }))
      one.pin.x += kPinWidth + 2;
    if (one.pin.right() <= map.right() + 1) pins.push_back(one);
  }
  return pins;
}

std::string DescribeNote(const CanvasModel& model, const MapNote& note) {
  std::string text = "Bookmark " + std::to_string(note.number);
  if (!note.text.empty()) {
    std::string shown = note.text.substr(0, kMostTextBytes);
    // Not within a character.
    while (shown.size() < note.text.size() && !shown.empty() && IsInsideCharacter(note.text[shown.size()]))
      shown.pop_back();
    text += ": " + shown + (shown.size() < note.text.size() ? " .." : "");
  }
  text += "\nqueries " + std::to_string(model.rows().Position(note.row_begin)) + " to " +
          std::to_string(model.rows().Position(std::max(note.row_begin, note.row_end - 1))) + ", keys " +
          std::to_string(note.column_begin) + " to " + std::to_string(std::max(note.column_begin, note.column_end - 1));
  return text + "\nClick: show it";
}

void DrawNotes(const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& map = options.view->viewport();
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  PushClip(list, map);
  for (const NotePin& one : PinsInView(model.notes(), *model.head(), *options.view)) {
    const PixelRect& place = one.place;
    const MapNote& note = model.notes()[one.note];
    const bool is_whole = note.row_end - note.row_begin >= options.view->num_rows() &&
                          note.column_end - note.column_begin >= options.view->num_columns();
    if (!is_whole && (place.width < kMostOfView * map.width || place.height < kMostOfView * map.height))
      list->AddRect(Point(place.x, place.y), Point(place.right(), place.bottom()), InksOf(options).accent, 0, 0, 1.5f);
    const bool pointed = options.pointed_note == one.note;
    list->AddRectFilled(Point(one.pin.x, one.pin.y), Point(one.pin.right(), one.pin.bottom()),
                        pointed ? IM_COL32(255, 206, 150, 255) : kAccentColor, 3);
    const std::string number = std::to_string(note.number);
    const ImVec2 size = TextSize(number);
    DrawText(list, one.pin.x + (kPinWidth - static_cast<double>(size.x)) / 2,
             one.pin.y + (kPinHeight - static_cast<double>(size.y)) / 2, kPinInk, number);
  }
  list->PopClipRect();
}

}  // namespace headscope::ui
