// SPDX-License-Identifier: Apache-2.0
#include "canvas_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "map_overlay.h"

namespace headscope::ui {

namespace {

using analysis::kTileSize;
using analysis::TileKey;
using analysis::TileReduction;

constexpr double kMinimapSize = 110;
constexpr double kMinimapMargin = 10;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Index into a tile's texels of the texel of `level` that holds a score.
size_t TexelIndex(int64_t row, int64_t column, int32_t level) {
  return static_cast<size_t>(((row >> level) % kTileSize) * kTileSize + (column >> level) % kTileSize);
}

TileKey OfHead(TileKey key, analysis::HeadId head) {
  key.head = head;
  return key;
}

}  // namespace

CanvasModel::CanvasModel(MethodTrial* trial)
    : own_trial_(trial == nullptr ? std::make_unique<MethodTrial>() : nullptr),
      trial_(trial == nullptr ? own_trial_.get() : trial),
      tiles_(trial_->view()),
      self_(std::make_shared<CanvasModel*>(this)) {
  SetArrivalHandler({});
}

void CanvasModel::SetArrivalHandler(std::function<void()> arrived) {
  on_arrival_ = std::move(arrived);
  tiles_.SetArrivalHandler([this] {
    ++arrivals_;
    if (on_arrival_) on_arrival_();
  });
}

void CanvasModel::SetWorkbench(Workbench* workbench) {
  workbench_ = workbench;
  tiles_.SetWorkbench(workbench);
  trial_->SetHead(std::nullopt);
  trial_->SetWorkbench(workbench);
  head_.reset();
  cursor_.reset();
}

void CanvasModel::SetTrace(TraceSummaryPtr shared) {
  trace_ = std::move(shared);
  const TraceSummary& trace = *trace_;
  answers_ = AnswerSpans(trace);
  trial_->SetHead(std::nullopt);
  tiles_.Clear();
  head_.reset();
  missing_head_.reset();
  cursor_.reset();
  ClearMark();
  other_cursor_.reset();
  before_ = {};
  profile_key_.reset();
  std::vector<int32_t> positions = trace.row_positions;
  if (static_cast<int64_t>(positions.size()) != trace.num_rows) {
    // A workbench that recorded every row may leave the positions out.
    positions.resize(static_cast<size_t>(std::max<int64_t>(trace.num_rows, 0)));
    for (size_t row = 0; row < positions.size(); ++row) positions[row] = static_cast<int32_t>(row);
  }
  rows_ = CausalRows(std::move(positions), trace.num_tokens);
  view_.SetMap(trace.num_rows, trace.num_tokens);
  // From what uniform attention at this length gives each key, up to 1: structure stands out, noise sinks to the
  // palette's end.
  const auto tokens = static_cast<float>(std::max<int64_t>(trace.num_tokens, 2));
  settings_.range = ClampedRange({.minimum_log2 = -std::log2(tokens) - 3, .maximum_log2 = 0});
}

bool CanvasModel::ShowHead(analysis::HeadId head) {
  if (head_ == head) return true;
  cursor_.reset();
  profile_key_.reset();
  const bool recorded = std::find(trace_->heads.begin(), trace_->heads.end(), head) != trace_->heads.end();
  missing_head_ = recorded ? std::nullopt : std::optional(head);
  if (!recorded) {
    head_.reset();
    tiles_.Clear();
    trial_->SetHead(std::nullopt);
    return false;
  }
  if (head_) {
    const int32_t coarsest = analysis::MaxLevel(rows_.num_rows(), rows_.num_columns());
    if (auto whole = tiles_.Find({*head_, settings_.reduction, coarsest, 0, 0}); whole.tile) before_ = std::move(whole);
  }
  head_ = head;
  tiles_.SetHead(head, rows_);
  if (trial_->head() != head) trial_->SetHead(head);
  return true;
}

void CanvasModel::MaskChanged() {
  const std::optional<LiveMask>& shown = trial_->shown_mask();
  const int64_t mask = shown ? shown->mask_id : 0;
  const int64_t other = comparison() == Comparison::kMasks ? other_->trial().mask()->mask_id : 0;
  tiles_.SetMask(mask, other);
  if (overlap_of_ == std::pair(mask, other)) return;
  overlap_of_ = {mask, other};
  // The old count stays until the new one is there, as the tiles do.
  if (other == 0) overlap_.reset();
  if (other == 0 || workbench_ == nullptr) return;
  workbench_->RequestMaskOverlap(
      mask, other, [weak = std::weak_ptr<CanvasModel*>(self_), of = overlap_of_](const analysis::MaskOverlap& overlap) {
        const std::shared_ptr<CanvasModel*> self = weak.lock();
        if (!self || (*self)->overlap_of_ != of) return;
        (*self)->overlap_ = overlap;
        if ((*self)->on_arrival_) (*self)->on_arrival_();
      });
}

void CanvasModel::CompareWith(CanvasModel* other) {
  if (other_ != nullptr && other_ != other) other_->view_.SetExtent(0, 0);
  other_ = other;
  if (other_ != nullptr) {
    // What is subtracted is seen at one scale, in tiles of one level.
    const bool is_part = Compared().is_shorter;
    other_->view_.SetExtent(is_part ? rows_.num_rows() : 0, is_part ? rows_.num_columns() : 0);
  }
  MaskChanged();
}

double CanvasModel::RowLike(const CanvasModel& other, double row) const {
  if (rows_ == other.rows_ || rows_.num_rows() == 0 || other.rows_.num_rows() == 0) return row;
  const auto whole = std::clamp<int64_t>(static_cast<int64_t>(row), 0, other.rows_.num_rows() - 1);
  return static_cast<double>(rows_.FirstRowAt(other.rows_.Position(whole))) + (row - std::floor(row));
}

Comparison CanvasModel::comparison() const {
  if (other_ == nullptr || !head_ || !other_->head_ || trial_->ghost()) return Comparison::kNone;
  if (other_->workbench_ == workbench_ && other_->head_ == head_) {
    const bool both = settings_.overlay && trial_->mask() && other_->trial_->mask();
    return both ? Comparison::kMasks : Comparison::kNone;
  }
  return CommonRows() > 0 ? Comparison::kValues : Comparison::kNone;
}

int64_t CanvasModel::CommonRows() const {
  if (rows_ == other_->rows_) return rows_.num_rows();
  // What is cut from a trace begins at another token.
  return trace_->first_token == other_->trace_->first_token ? rows_.CommonRows(other_->rows_) : 0;
}

CanvasModel::ComparedPart CanvasModel::Compared() const {
  if (comparison() != Comparison::kValues) return {};
  if (rows_ == other_->rows_) return {rows_.num_rows(), rows_.num_columns(), false};
  const int64_t rows = CommonRows();
  return {rows, rows_.NumColumns(rows - 1), true};
}

int32_t CanvasModel::CommonTopLevel() const {
  if (!Compared().is_shorter) return std::numeric_limits<int32_t>::max();
  return std::min(analysis::MaxLevel(rows_.num_rows(), rows_.num_columns()),
                  analysis::MaxLevel(other_->rows_.num_rows(), other_->rows_.num_columns()));
}

std::string CanvasModel::WhyNotCompared() const {
  if (other_ == nullptr || comparison() != Comparison::kNone) return {};
  if (!head_ || !other_->head_) return "No difference: the other map shows no head.";
  if (other_->workbench_ == workbench_ && other_->head_ == head_)
    return settings_.overlay ? "The masks are being computed." : "No difference: the masks are off (Mask).";
  return "No difference: the two maps have different queries or keys.";
}

int32_t CanvasModel::kv_head() const {
  if (!head_) return -1;
  const auto found = std::find(trace_->heads.begin(), trace_->heads.end(), *head_);
  const auto index = static_cast<size_t>(found - trace_->heads.begin());
  return index < trace_->kv_head_of_head.size() ? trace_->kv_head_of_head[index] : -1;
}

CanvasParts CanvasModel::Parts() const {
  return {.profiles = settings_.profiles,
          .steps = settings_.overlay && trial_->is_decode(),
          .panel = panel_place_,
          .aspect = view_.Aspect()};
}

CanvasParts CanvasModel::PictureParts(double width) const {
  CanvasParts parts = Parts();
  parts.panel = PanelPlace::kNone;
  const CaptionLines lines = LinesOf(CaptionOf(*this, view_), width);
  parts.source_lines = static_cast<int32_t>(lines.source.size());
  parts.legend_lines = static_cast<int32_t>(lines.legend.size());
  return parts;
}

const CanvasLayout& CanvasModel::LayOut(QSize size) {
  layout_ = LayOutCanvas(size.width(), size.height(), Parts());
  view_.SetViewport(layout_.map);
  return layout_;
}

QSize CanvasModel::PictureSize() const {
  constexpr double kLeastWidth = 640;  // for the caption's lines
  const ScoreRect visible = view_.Visible();
  const double columns = visible.column_end - visible.column_begin, rows = visible.row_end - visible.row_begin;
  const double map_width = std::min(columns / view_.scores_per_pixel(), layout_.map.width),
               map_height = std::min(rows / view_.scores_per_pixel(), layout_.map.height);
  // What the parts take around a map of no size.
  const double room = 4 * kLeastWidth;
  double width = kLeastWidth, height = 0;
  // The caption is higher in a narrow picture: the width comes first.
  width = std::ceil(std::max(width, map_width + room - LayOutCanvas(room, room, PictureParts(room)).map.width));
  height = map_height + room - LayOutCanvas(width, room, PictureParts(width)).map.height;
  return {static_cast<int>(width), static_cast<int>(std::ceil(height))};
}

int32_t CanvasModel::ProfileLevel(int32_t level) const {
  // By-mean tiles are there anyway when the map shows them; else half the resolution takes a quarter of the tiles.
  // Single scores are not halved: a bar for two keys would stand under one of them.
  if (settings_.reduction == TileReduction::kMean || level == 0) return level;
  return std::min(level + 1, analysis::MaxLevel(rows_.num_rows(), rows_.num_columns()));
}

TileDemand CanvasModel::Demand(const ViewTransform& view, double device_pixel_ratio) const {
  const int32_t level = view.Level(device_pixel_ratio);
  TileDemand demand;
  demand.reduction = settings_.reduction;
  demand.tiles = view.TilesOf(level);
  demand.mask = settings_.overlay || trial_->ghost();
  // A shorter map has no tiles of this level: all that it has in common is in one of its coarsest.
  if (const int32_t top = CommonTopLevel(); level > top)
    demand.compared_tiles = {.level = top, .x_begin = 0, .x_end = 1, .y_begin = 0, .y_end = 1};
  if (settings_.profiles) demand.profile_tiles = view.TilesOf(ProfileLevel(level));
  demand.center_row = view.center_row();
  demand.center_column = view.center_column();
  return demand;
}

MapPicture CanvasModel::Picture(const ViewTransform& view, double device_pixel_ratio) {
  MapPicture picture;
  picture.clip = view.viewport();
  if (!head_ || view.empty()) return picture;
  const ScoreRect visible = view.Visible();
  const auto rect = [&](double column, double row, double column_end, double row_end) {
    const double x = view.ColumnToX(column), y = view.RowToY(row);
    return PixelRect{x, y, view.ColumnToX(column_end) - x, view.RowToY(row_end) - y};
  };
  picture.hatched = rect(visible.column_begin, visible.row_begin, visible.column_end, visible.row_end);
  const TileRange range = view.TilesOf(view.Level(device_pixel_ratio));
  const double tile_scores = std::ldexp(static_cast<double>(kTileSize), range.level);
  const Comparison compared = comparison();
  picture.comparison = compared;
  const ComparedPart part = Compared();
  const int32_t top = CommonTopLevel();
  if (part.is_shorter) picture.compared_end_row = part.num_rows;
  for (int32_t y = range.y_begin; y < range.y_end; ++y) {
    for (int32_t x = range.x_begin; x < range.x_end; ++x) {
      const TileKey key{*head_, settings_.reduction, range.level, x, y};
      if (!rows_.HasScores(key)) continue;
      MapQuad quad;
      quad.destination = rect(x * tile_scores, y * tile_scores, (x + 1) * tile_scores, (y + 1) * tile_scores);
      quad.values = tiles_.Find(key);
      if (compared == Comparison::kMasks) {
        quad.pair = tiles_.FindMaskPair(key);
      } else if (compared == Comparison::kValues) {
        if (part.is_shorter) {
          picture.quads.push_back(quad);  // without colours, as what is compared is not
          if (range.level > top || y * tile_scores >= static_cast<double>(part.num_rows)) continue;
        }
        quad.other = other_->tiles_.Find(OfHead(key, *other_->head_));
        if (part.is_shorter && !quad.other.tile) continue;
      } else if (settings_.overlay || trial_->ghost()) {
        quad.mask = tiles_.FindMask(key);
      }
      picture.quads.push_back(std::move(quad));
    }
  }
  if (range.level > top) {
    const TileKey key{*head_, settings_.reduction, top, 0, 0};
    const double whole = std::ldexp(static_cast<double>(kTileSize), top);
    MapQuad quad;
    quad.destination = rect(0, 0, whole, whole);
    quad.values = tiles_.Find(key);
    quad.other = other_->tiles_.Find(OfHead(key, *other_->head_));
    if (quad.values.tile && quad.other.tile) picture.quads.push_back(std::move(quad));
  }
  if (!before_.tile) return picture;
  if (std::any_of(picture.quads.begin(), picture.quads.end(), [](const MapQuad& quad) { return quad.values.tile; })) {
    before_ = {};
    return picture;
  }
  const double whole = std::ldexp(static_cast<double>(kTileSize), before_.tile->key.level);
  MapQuad quad;
  quad.destination = rect(0, 0, whole, whole);
  quad.values = before_;
  picture.quads = {std::move(quad)};
  picture.comparison = Comparison::kNone;
  picture.stale = true;
  return picture;
}

std::optional<PixelRect> CanvasModel::MinimapRect() const {
  if (!settings_.minimap || !head_ || view_.empty()) return std::nullopt;
  const PixelRect& map = layout_.map;
  if (view_.ShowsEverything() || std::min(map.width, map.height) < 3 * kMinimapSize) return std::nullopt;
  const auto rows = static_cast<double>(rows_.num_rows()), columns = static_cast<double>(rows_.num_columns());
  const double scale = kMinimapSize / std::max(rows, columns);
  return PixelRect{map.x + kMinimapMargin, map.bottom() - rows * scale - kMinimapMargin, columns * scale, rows * scale};
}

MapPicture CanvasModel::MinimapPicture() {
  MapPicture picture;
  const std::optional<PixelRect> rect = MinimapRect();
  if (!rect) return picture;
  picture.clip = picture.hatched = *rect;
  const int32_t level = analysis::MaxLevel(rows_.num_rows(), rows_.num_columns());
  const double tile_scores = std::ldexp(static_cast<double>(kTileSize), level);
  MapQuad quad;
  quad.destination = {rect->x, rect->y, tile_scores * rect->width / static_cast<double>(rows_.num_columns()),
                      tile_scores * rect->height / static_cast<double>(rows_.num_rows())};
  quad.values = tiles_.Find({*head_, settings_.reduction, level, 0, 0});
  picture.quads.push_back(std::move(quad));
  return picture;
}

ViewProfiles CanvasModel::Profiles(const ViewTransform& view, double device_pixel_ratio) {
  if (!head_ || view.empty()) return {};
  const int32_t level = ProfileLevel(view.Level(device_pixel_ratio));
  return ComputeProfiles(view.Visible(), level, rows_, [&](int32_t x, int32_t y) {
    const auto sample = tiles_.Find({*head_, TileReduction::kMean, level, x, y});
    return sample.levels_coarser == 0 && sample.tile && !sample.tile->preview ? sample.tile : nullptr;
  });
}

const ViewProfiles& CanvasModel::CachedProfiles(double device_pixel_ratio) {
  const ProfileKey key{view_, ProfileLevel(view_.Level(device_pixel_ratio)), arrivals_};
  if (profile_key_ != key) {
    profiles_ = Profiles(view_, device_pixel_ratio);
    profile_key_ = key;
  }
  return profiles_;
}

std::optional<float> CanvasModel::ScoreLog2(int64_t row, int64_t column) {
  if (!head_ || !rows_.IsCausal(row, column)) return std::nullopt;
  const auto sample = tiles_.Find({*head_, settings_.reduction, 0, static_cast<int32_t>(column / kTileSize),
                                   static_cast<int32_t>(row / kTileSize)});
  if (!sample.tile || sample.levels_coarser != 0 || sample.tile->preview) return std::nullopt;
  return sample.tile->log2_p[TexelIndex(row, column, 0)];
}

CursorScore CanvasModel::ReadScore(int64_t row, int64_t column, double device_pixel_ratio) {
  CursorScore score;
  score.row = row;
  score.column = column;
  score.position = rows_.Position(row);
  score.texel_log2_p = score.kept_share = kNaN;
  score.exact = {.probability = kNaN, .score = kNaN, .causal = rows_.IsCausal(row, column)};
  if (score.exact.causal && workbench_ != nullptr) score.exact = workbench_->ExactScore(*head_, row, column);
  const int32_t level = view_.Level(device_pixel_ratio);
  score.texel_scores = int64_t{1} << level;
  const TileKey key{*head_, settings_.reduction, level, static_cast<int32_t>((column >> level) / kTileSize),
                    static_cast<int32_t>((row >> level) / kTileSize)};
  const auto values = tiles_.Find(key);
  if (values.tile && values.levels_coarser == 0 && !values.tile->preview)
    score.texel_log2_p = static_cast<double>(values.tile->log2_p[TexelIndex(row, column, level)]);
  const auto mask = tiles_.FindMask(key);
  if (mask.tile && mask.levels_coarser == 0 && !mask.from_old_mask && IsInMask(row)) {
    score.kept_share = mask.tile->kept[TexelIndex(row, column, level)] / 255.0;
  }
  const Comparison compared = comparison();
  if (row < Compared().num_rows && other_->workbench_ != nullptr)
    score.compared = other_->workbench_->ExactScore(*other_->head_, row, column);
  if (compared == Comparison::kMasks) {
    const auto pair = tiles_.FindMaskPair(key);
    if (pair.tile && pair.levels_coarser == 0 && !pair.from_old_mask) {
      score.kept_by.emplace();
      for (size_t by = 0; by < analysis::kNumKeptBy; ++by)
        (*score.kept_by)[by] = pair.tile->kept[TexelIndex(row, column, level) * analysis::kNumKeptBy + by] / 255.0;
    }
  }
  return score;
}

std::optional<MarkedScore> CanvasModel::ScoreOnProfile(std::optional<double> column_x, std::optional<double> row_y,
                                                       double device_pixel_ratio) {
  constexpr double kNear = 4;  // pixels that a hand misses a thin bar by
  if (!head_ || view_.empty()) return std::nullopt;
  const ScoreRect visible = view_.Visible();
  const auto last = [](int64_t size) { return std::max<int64_t>(size - 1, 0); };
  if (row_y) {
    const auto row = static_cast<int64_t>(std::floor(view_.YToRow(*row_y)));
    if (row < 0 || row >= rows_.num_rows()) return std::nullopt;
    const auto newest = std::min<int64_t>(rows_.NumColumns(row), static_cast<int64_t>(std::ceil(visible.column_end)));
    return MarkedScore{row, last(newest)};
  }
  if (!column_x) return std::nullopt;
  auto column = static_cast<int64_t>(std::floor(view_.XToColumn(*column_x)));
  if (column < 0 || column >= rows_.num_columns()) return std::nullopt;
  const ViewProfiles& profiles = CachedProfiles(device_pixel_ratio);
  const auto bin_at = [&](double x) {
    return (static_cast<int64_t>(std::floor(view_.XToColumn(x))) >> profiles.level) - profiles.first_column_bin;
  };
  float most = -1;
  for (int64_t bin = bin_at(*column_x - kNear); bin <= bin_at(*column_x + kNear); ++bin) {
    if (bin < 0 || bin >= static_cast<int64_t>(profiles.column_mean.size())) continue;
    const float mean = profiles.column_mean[static_cast<size_t>(bin)];
    if (!(mean > most)) continue;
    most = mean;
    column = std::min((profiles.first_column_bin + bin) << profiles.level, last(rows_.num_columns()));
  }
  const auto middle = static_cast<int64_t>((visible.row_begin + visible.row_end) / 2);
  return MarkedScore{std::clamp<int64_t>(middle, 0, last(rows_.num_rows())), column};
}

bool CanvasModel::IsInMask(int64_t row) const {
  const std::optional<LiveMask>& mask = trial_->shown_mask();
  if (!mask) return false;
  return !mask->steps || (row >= mask->steps->first_row && row < mask->steps->end_row());
}

bool CanvasModel::IsBrushed(int64_t row) const {
  const std::optional<LiveMask>& mask = trial_->mask();
  const MethodTrial::Brush& brush = trial_->brush();
  if (!mask || !brush) return false;
  const int64_t step = row - (mask->steps ? mask->steps->first_row : 0);
  if (step < 0 || step >= static_cast<int64_t>(mask->kept_mass.size())) return false;
  const auto kept = static_cast<double>(mask->kept_mass[static_cast<size_t>(step)]);
  return kept >= brush->first && kept < brush->second;
}

std::optional<float> CanvasModel::LeastKeptMass(int64_t row_begin, int64_t row_end) const {
  const std::optional<LiveMask>& mask = trial_->shown_mask();
  if (!mask) return std::nullopt;
  const int64_t first = mask->steps ? mask->steps->first_row : 0;
  const auto size = static_cast<int64_t>(mask->kept_mass.size());
  if (first + size > rows_.num_rows()) return std::nullopt;
  const auto begin = mask->kept_mass.begin() + std::clamp<int64_t>(row_begin - first, 0, size);
  const auto end = mask->kept_mass.begin() + std::clamp<int64_t>(row_end - first, 0, size);
  return begin < end ? std::optional(*std::min_element(begin, end)) : std::nullopt;
}

bool CanvasModel::MoveCursor(double x, double y, double device_pixel_ratio) {
  int64_t row = 0, column = 0;
  if (!head_ || !view_.ScoreAt(x, y, &row, &column)) return LeaveMap();
  const bool moved = !cursor_ || cursor_->row != row || cursor_->column != column;
  cursor_ = ReadScore(row, column, device_pixel_ratio);
  return moved;
}

bool CanvasModel::LeaveMap() {
  const bool was_inside = cursor_.has_value();
  cursor_.reset();
  return was_inside;
}

void CanvasModel::SetOtherCursor(const std::optional<MarkedScore>& score) {
  other_cursor_ = score;
  if (score && (score->row >= rows_.num_rows() || score->column >= rows_.num_columns())) other_cursor_.reset();
}

void CanvasModel::SetCursorOf(const CanvasModel& other, const MarkedScore& score) {
  other_cursor_.reset();
  if (score.row < 0 || score.row >= other.rows_.num_rows()) return;
  if (!rows_.HasRowAtOrAfter(other.rows_.Position(score.row))) return;
  SetOtherCursor(MarkedScore{static_cast<int64_t>(RowLike(other, static_cast<double>(score.row))), score.column});
}

bool CanvasModel::HasScore(int64_t row, int64_t column) const {
  return row >= 0 && row < rows_.num_rows() && column >= 0 && rows_.IsCausal(row, column);
}

void CanvasModel::Mark(const MarkedScore& score) {
  ForgetClick();
  mark_ = score;
}

bool CanvasModel::ClearMark() {
  ForgetClick();
  const bool marked = mark_.has_value();
  mark_.reset();
  return marked;
}

bool CanvasModel::ClickScore(const MarkedScore& score) {
  before_click_ = mark_;
  if (mark_ == score)
    mark_.reset();
  else
    mark_ = score;
  return mark_.has_value();
}

bool CanvasModel::TakeBackClick() {
  if (!before_click_) return false;
  const bool marked = mark_.has_value();
  mark_ = *before_click_;
  ForgetClick();
  return marked;
}

bool CanvasModel::HasStandIns(double device_pixel_ratio) {
  const MapPicture picture = Picture(view_, device_pixel_ratio);
  return std::any_of(picture.quads.begin(), picture.quads.end(), [](const MapQuad& quad) {
    return !quad.values.tile || quad.values.levels_coarser > 0 || quad.values.tile->preview;
  });
}

bool CanvasModel::FitRange(double device_pixel_ratio, double share) {
  std::vector<float> values;
  for (const MapQuad& quad : Picture(view_, device_pixel_ratio).quads) {
    if (!quad.values.tile) continue;
    std::copy_if(quad.values.tile->log2_p.begin(), quad.values.tile->log2_p.end(), std::back_inserter(values),
                 [](float value) { return std::isfinite(value); });
  }
  if (values.empty()) return false;
  const float least = *std::min_element(values.begin(), values.end());
  const auto place = std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())));
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), end, values.end());
  settings_.range = ClampedRange({.minimum_log2 = least, .maximum_log2 = *end});
  return true;
}

std::string CanvasModel::TokenText(int64_t position) const {
  if (position < 0 || position >= static_cast<int64_t>(trace_->token_text.size())) return {};
  return trace_->token_text[static_cast<size_t>(position)];
}

}  // namespace headscope::ui
