// SPDX-License-Identifier: Apache-2.0
// What Dear ImGui draws over the map: axes, profiles, colour bar, values of single scores, crosshair and tooltip.
// Between ImGui::NewFrame and Render.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/types/map_words.h"
#include "canvas_model.h"

namespace headscope::ui {

struct OverlayOptions {
  const ViewTransform* view = nullptr;  // of this picture; the window's or an export's
  const CanvasLayout* layout = nullptr;
  const ViewProfiles* profiles = nullptr;
  double device_pixel_ratio = 1;
  PictureGround ground = PictureGround::kDark;
  bool live = true;        // cursor, tooltip, minimap and hints, which a picture in a file has no use for
  bool named = false;      // which head it is stands on the map: there are two maps
  bool focused = false;    // the map has the keyboard, and no control of its panel
  std::string trace_name;  // and of which trace; empty: they are of the same one
  std::optional<PixelRect> selection;
  std::string tooltip;                 // at the pointer; empty: none
  std::optional<size_t> pointed_note;  // the bookmark whose pin is under the pointer
};

// What a picture of a view in a file says of itself. Pure; empty without a head.
analysis::MapCaption CaptionOf(const CanvasModel& model, const ViewTransform& view);
struct CaptionLines {
  std::vector<std::string> source, legend;
};
CaptionLines LinesOf(const analysis::MapCaption& caption, double picture_width);
// What a comparison says of itself, a line for each of its colours; empty without one.
std::vector<std::string> ComparisonTexts(const CanvasModel& model);
// What stands on a map without a head. `trace_name`: as OverlayOptions has it.
std::string EmptyMapText(const CanvasModel& model, const std::string& trace_name);

void DrawMapOverlay(CanvasModel& model, const OverlayOptions& options);

// The parts, each in its own file.
void DrawAxes(const CanvasModel& model, const OverlayOptions& options);
void DrawProfiles(const CanvasModel& model, const OverlayOptions& options);
void DrawSteps(const CanvasModel& model, const OverlayOptions& options);
void DrawBrush(const CanvasModel& model, const OverlayOptions& options);
void DrawName(const CanvasModel& model, const OverlayOptions& options);
void DrawGhost(const CanvasModel& model, const OverlayOptions& options);
void DrawOtherCursor(const CanvasModel& model, const OverlayOptions& options);
void DrawMark(const CanvasModel& model, const OverlayOptions& options);
void DrawNotes(const CanvasModel& model, const OverlayOptions& options);
void DrawCaptions(const CanvasModel& model, const OverlayOptions& options);
void DrawColorBar(const CanvasModel& model, const OverlayOptions& options);
void DrawScoreValues(CanvasModel& model, const OverlayOptions& options);
void DrawCursor(const CanvasModel& model, const OverlayOptions& options);
void DrawComparison(const CanvasModel& model, const OverlayOptions& options);

using analysis::FormatProbability;
// The same in at most five: "1e-04", ".012".
std::string FormatProbabilityShortly(double probability);
// What the profile of the keys shows, and its greatest value; in a narrow place without saying over which queries.
std::string ColumnProfileText(const CanvasModel& model, const ViewProfiles& profiles, bool narrow = false);
// Whose mask is shown in place of the panel's; empty: the panel's is.
std::string DescribeGhost(const CanvasModel& model);
// What the tooltip says of a bookmark: its number and note, its place.
std::string DescribeNote(const CanvasModel& model, const MapNote& note);
// What the tooltip says of a score, one line each.
std::string DescribeScore(const CanvasModel& model, const CursorScore& score);
// How many queries and keys lie in a rectangle of pixels, also those that it cuts.
std::string DescribeSelection(const PixelRect& box, const ViewTransform& view);

}  // namespace headscope::ui
