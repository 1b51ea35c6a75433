// SPDX-License-Identifier: Apache-2.0
// All that the canvas shows, without a way to show it: trace, head, view, tiles, the method under trial, the score
// under the cursor. No Qt widget, no ImGui, no OpenGL.
#pragma once

#include <QSize>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "canvas_layout.h"
#include "canvas_renderer.h"
#include "canvas_settings.h"
#include "map_notes.h"
#include "method_trial.h"
#include "profiles.h"
#include "tile_cache.h"
#include "token_search.h"

namespace headscope::ui {

// The score under the pointer.
struct CursorScore {
  int64_t row = 0, column = 0;  // recorded row
  int64_t position = 0;         // the row's token
  Exact exact;
  // Of the texel on show, which stands for texel_scores x texel_scores scores; NaN while unknown.
  int64_t texel_scores = 1;
  double texel_log2_p = 0;
  // Share of the texel's scores that the mask keeps; NaN while unknown, and in rows that a decode method's mask is not
  // about.
  double kept_share = 0;
  // Of the same score in the map that this one is compared with.
  std::optional<Exact> compared;
  // Shares that either mask keeps alone, and both; while masks are compared and these are known.
  std::optional<std::array<double, analysis::kNumKeptBy>> kept_by;
};

// A score whose row and column are to be seen from afar.
struct MarkedScore {
  int64_t row = 0, column = 0;  // recorded row
  friend bool operator==(const MarkedScore&, const MarkedScore&) = default;
};

class CanvasModel {
 public:
  // `trial` outlives the model; null: it has one of its own.
  explicit CanvasModel(MethodTrial* trial = nullptr);

  // `arrived` is called when a tile has come.
  void SetArrivalHandler(std::function<void()> arrived);
  void SetWorkbench(Workbench* workbench);
  void SetTrace(TraceSummaryPtr trace);  // not null
  void SetTrace(const TraceSummary& trace) { SetTrace(std::make_shared<const TraceSummary>(trace)); }
  bool ShowHead(analysis::HeadId head);  // false: the trace does not hold it
  void MaskChanged();                    // after MethodTrial's mask changed

  // Shows how `other` differs from this one, masks if both are of one head and else probabilities; null: this one
  // alone. `other` outlives the model, or is replaced first. Called again when the other's head or mask changed.
  void CompareWith(CanvasModel* other);
  // Where a row of another map lies in this one: traces that recorded other rows agree in the queries' positions.
  double RowLike(const CanvasModel& other, double row) const;
  // Marks the score that lies where one of another map does, as SetOtherCursor; none where this map ends before it.
  void SetCursorOf(const CanvasModel& other, const MarkedScore& score);
  // What is shown of the two. kNone where they have nothing to compare, and why is then not empty.
  Comparison comparison() const;
  std::string WhyNotCompared() const;
  // Of two heads' probabilities: how many rows and keys, from the first ones on, the comparison is about. Of traces of
  // different lengths, those of the shorter one.
  struct ComparedPart {
    int64_t num_rows = 0, num_columns = 0;
    bool is_shorter = false;  // than a map
  };
  ComparedPart Compared() const;
  const CanvasModel* other() const { return other_; }
  // Over the whole head; nothing while it is being counted.
  const std::optional<analysis::MaskOverlap>& overlap() const { return overlap_; }

  Workbench* workbench() const { return workbench_; }
  const TraceSummary& trace() const { return *trace_; }
  const CausalRows& rows() const { return rows_; }
  // Of the trace's task: marked on the axes.
  const std::vector<TokenSpan>& answers() const { return answers_; }
  const std::optional<analysis::HeadId>& head() const { return head_; }
  // That was to be shown and is not in the trace, until one that is, or another trace, is shown.
  const std::optional<analysis::HeadId>& missing_head() const { return missing_head_; }
  // KV head that the head on show reads, or -1.
  int32_t kv_head() const;

  CanvasSettings& settings() { return settings_; }
  const CanvasSettings& settings() const { return settings_; }
  ViewTransform& view() { return view_; }
  const ViewTransform& view() const { return view_; }
  MethodTrial& trial() { return *trial_; }
  const MethodTrial& trial() const { return *trial_; }
  TileCache& tiles() { return tiles_; }
  const TileCache& tiles() const { return tiles_; }

  // The parts of the canvas in the window, and in a picture of it that is so wide.
  CanvasParts Parts() const;
  CanvasParts PictureParts(double width) const;
  void SetPanelPlace(PanelPlace place) { panel_place_ = place; }
  PanelPlace panel_place() const { return panel_place_; }
  // Lays the canvas out for a size in logical pixels and gives the view its part.
  const CanvasLayout& LayOut(QSize size);
  const CanvasLayout& layout() const { return layout_; }
  // The canvas' size with a title and a caption, less what the present view leaves blank of the map's room.
  QSize PictureSize() const;

  // What a frame of a view needs, and what it draws with what has come.
  TileDemand Demand(const ViewTransform& view, double device_pixel_ratio) const;
  MapPicture Picture(const ViewTransform& view, double device_pixel_ratio);
  // The whole map, small, in the map's lower left corner; empty while the view shows everything or is too small to
  // spare the room.
  std::optional<PixelRect> MinimapRect() const;
  MapPicture MinimapPicture();
  // Of the window: no setting of its own, the theme says it.
  void SetGround(PictureGround ground) { ground_ = ground; }
  PictureGround ground() const { return ground_; }
  PictureGround picture_ground() const { return settings_.picture_ground.value_or(ground_); }
  MapLook Look() const {
    return {.color_map = settings_.color_map,
            .range = settings_.range,
            .logarithmic = settings_.logarithmic,
            .ground = ground_ == PictureGround::kLight ? analysis::kLightGround : analysis::kDarkGround,
            .lost = settings_.lost};
  }

  // Curves of a view; the view of the canvas is computed anew only when something changed.
  ViewProfiles Profiles(const ViewTransform& view, double device_pixel_ratio);
  const ViewProfiles& CachedProfiles(double device_pixel_ratio);

  // What a press on one of the curves means, at a pixel along it: on the keys' curve the highest bin near the pixel, at
  // the query in the view's middle; on the queries' curve that query, at its newest key in view. Nothing off the map.
  std::optional<MarkedScore> ScoreOnProfile(std::optional<double> column_x, std::optional<double> row_y,
                                            double device_pixel_ratio);

  // Whether the mask says anything of a row: a decode method's is about its steps only.
  bool IsInMask(int64_t row) const;
  // The least kept mass of recorded rows [row_begin, row_end) by the mask on show; nothing when it has none of them.
  std::optional<float> LeastKeptMass(int64_t row_begin, int64_t row_end) const;

  // Whether a row's kept mass lies in the trial's brush.
  bool IsBrushed(int64_t row) const;

  // log2 p of one score from a tile of single scores; nothing while that tile is not held.
  std::optional<float> ScoreLog2(int64_t row, int64_t column);

  // Moves the cursor to a pixel, or off the map. True when the score under it is another one.
  bool MoveCursor(double x, double y, double device_pixel_ratio);
  bool LeaveMap();
  const std::optional<CursorScore>& cursor() const { return cursor_; }

  // Whether the trace recorded the row and its query sees the key.
  bool HasScore(int64_t row, int64_t column) const;

  // Stays from head to head of a trace.
  void Mark(const MarkedScore& score);
  bool ClearMark();  // false: there was none
  const std::optional<MarkedScore>& mark() const { return mark_; }
  // A click on a score marks it, or marks it no longer. It may turn out to be the first one of a double click, which
  // marks nothing: then the mark is what it was before. Anything else that marks, and ForgetClick, ends that.
  // Both return whether a mark was set by the click.
  bool ClickScore(const MarkedScore& score);
  bool TakeBackClick();
  void ForgetClick() { before_click_.reset(); }

  // Bookmarks of this trace, of every head.
  void SetNotes(std::vector<MapNote> notes) { notes_ = std::move(notes); }
  const std::vector<MapNote>& notes() const { return notes_; }

  // Under the pointer of a map beside this one; outside the map: none.
  void SetOtherCursor(const std::optional<MarkedScore>& score);
  const std::optional<MarkedScore>& other_cursor() const { return other_cursor_; }

  // Sets the range to what the visible tiles hold; its end where this share of their texels lies below. 1: nothing is
  // cut off. False while no tile is held.
  bool FitRange(double device_pixel_ratio, double share = 1);
  // Whether anything in view stands in for a tile that is not there yet.
  bool HasStandIns(double device_pixel_ratio);

  // "token" as it is shown, or an empty string outside the trace.
  std::string TokenText(int64_t position) const;

 private:
  int32_t ProfileLevel(int32_t level) const;
  int64_t CommonRows() const;
  int32_t CommonTopLevel() const;  // the coarsest of both maps; greater than any level where they are of one size
  CursorScore ReadScore(int64_t row, int64_t column, double device_pixel_ratio);

  Workbench* workbench_ = nullptr;
  TraceSummaryPtr trace_ = std::make_shared<const TraceSummary>();
  CausalRows rows_;
  std::vector<TokenSpan> answers_;
  std::optional<analysis::HeadId> head_, missing_head_;
  PictureGround ground_ = PictureGround::kDark;
  CanvasSettings settings_;
  CanvasLayout layout_;
  PanelPlace panel_place_ = PanelPlace::kNone;
  ViewTransform view_;
  const std::unique_ptr<MethodTrial> own_trial_;  // null: it is another's
  MethodTrial* const trial_;
  TileCache tiles_;
  // The whole map of the head before, until something of the present one has come: the map does not go blank.
  TileSample<analysis::TileData> before_;
  std::optional<CursorScore> cursor_;
  std::optional<MarkedScore> mark_, other_cursor_;
  std::optional<std::optional<MarkedScore>> before_click_;  // the mark; nothing: no click to be taken back
  std::vector<MapNote> notes_;
  int64_t arrivals_ = 0;
  CanvasModel* other_ = nullptr;
  std::optional<analysis::MaskOverlap> overlap_;
  std::pair<int64_t, int64_t> overlap_of_{0, 0};  // the masks that it was asked for
  std::function<void()> on_arrival_;
  std::shared_ptr<CanvasModel*> self_;  // replies hold it weakly

  struct ProfileKey {
    ViewTransform view;
    int32_t level = 0;
    int64_t arrivals = 0;
    friend bool operator==(const ProfileKey&, const ProfileKey&) = default;
  };
  std::optional<ProfileKey> profile_key_;
  ViewProfiles profiles_;
};

}  // namespace headscope::ui
