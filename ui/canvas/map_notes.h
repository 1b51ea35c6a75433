// SPDX-License-Identifier: Apache-2.0
// Bookmarks on the map: where their pins lie. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/types/head_statistics.h"
#include "view_transform.h"

namespace headscope::ui {

struct MapNote {
  std::string id;
  analysis::HeadId head;
  int number = 0;  // among the bookmarks, from 1
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  std::string text;
  friend bool operator==(const MapNote&, const MapNote&) = default;
};

struct NotePin {
  size_t note = 0;  // its index
  PixelRect pin;    // at the upper left corner of its place
  PixelRect place;  // of which a part may lie outside of the viewport
};

inline constexpr double kPinWidth = 20, kPinHeight = 16;  // pixels

// Of the head's notes those whose corner is in view. Pins of one corner lie side by side, in the notes' order.
std::vector<NotePin> PinsInView(const std::vector<MapNote>& notes, analysis::HeadId head, const ViewTransform& view);

}  // namespace headscope::ui
