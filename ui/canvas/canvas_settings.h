// SPDX-License-Identifier: Apache-2.0
// How the canvas looks, and how that is written into the session file.
#pragma once

#include <QJsonObject>
#include <optional>

#include "analysis/types/color_map.h"
#include "analysis/types/tile.h"
#include "analysis/types/value_scale.h"
#include "view_transform.h"

namespace headscope::ui {

// What a map is drawn on: in the window as its theme is, in a file as is set for pictures.
enum class PictureGround { kDark, kLight };

struct CanvasSettings {
  const analysis::ColorMap* color_map = &analysis::ColorMaps().front();
  bool logarithmic = true;
  analysis::TileReduction reduction = analysis::TileReduction::kMax;
  analysis::ValueRange range;
  bool overlay = true;
  bool lost = false;  // the overlay colours what the method leaves out, and what it keeps is grey
  bool panel_visible = true;
  bool profiles = true;
  bool minimap = true;
  bool live_runs = true;                        // the executor follows the sliders
  int repeats = 3;                              // of a measured run
  bool measures_alone = false;                  // it times the head alone, not its layer
  std::optional<PictureGround> picture_ground;  // nothing: the window's own
  int picture_width = 0;                        // pixels across of pictures in files; 0: twice the canvas' own
  friend bool operator==(const CanvasSettings&, const CanvasSettings&) = default;
};

inline constexpr int kMaxRepeats = 100;
inline constexpr int kMaxPictureWidth = 6144;
// The least and greatest log2 p that a range may name; p = 2^-40 is far below what 128K uniform keys give each.
inline constexpr float kLeastLog2 = -40;
inline constexpr float kGreatestLog2 = 0;
inline constexpr float kLeastRangeSpan = 0.5f;

// The palettes that the map can wear: the sequential ones. nullptr for any other name.
const analysis::ColorMap* FindMapColors(const std::string& name);

// A range within the bounds above, its ends in order and apart.
analysis::ValueRange ClampedRange(analysis::ValueRange range);

QJsonObject RangeToJson(const analysis::ValueRange& range);
QJsonObject SettingsToJson(const CanvasSettings& settings);
// The settings in `json` over `present`: a member that is missing, of another type or out of range leaves the present
// value.
CanvasSettings SettingsFromJson(const QJsonObject& json, const CanvasSettings& present);

// The view's centre and scale; as above, what is not understood leaves the view as it is. Positions are clamped to the
// map.
QJsonObject ViewToJson(const ViewTransform& view);
void ApplyViewJson(const QJsonObject& json, ViewTransform* view);

}  // namespace headscope::ui
