// SPDX-License-Identifier: Apache-2.0
// A head's map as a picture: title, axes in tokens, colour bar with its unit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/outside_mass.h"
#include "analysis/report.h"
#include "analysis/types/color_map.h"
#include "analysis/types/ground.h"
#include "analysis/types/number_text.h"
#include "analysis/types/round_ticks.h"
#include "analysis/types/value_scale.h"
#include "base/errors.h"
#include "head/head_checks.h"
#include "report/axis.h"
#include "report/drawing.h"
#include "report/map_values.h"

namespace headscope::analysis {
namespace {

// Decades below the largest value that a logarithmic scale shows: what lies deeper has the lowest colour.
constexpr double kScoreDecades = 6;
constexpr double kDifferenceDecades = 4;

// From a value to a place on the colour map, and the marks of the colour bar.
class Scale {
 public:
  struct Mark {
    double place;  // 0..1 along the bar
    std::string label;
  };

  Scale(const MapValues& map, ViewKind view, bool logarithmic)
      : signed_(view == ViewKind::kDifference), logarithmic_(logarithmic && view != ViewKind::kMask) {
    double largest = 0;
    for (const double value : map.values) {
      if (!std::isnan(value)) largest = std::max(largest, std::fabs(value));
    }
    if (view == ViewKind::kMask || largest == 0) largest = 1;
    const double decades = signed_ ? kDifferenceDecades : kScoreDecades;
    range_.maximum_log2 = static_cast<float>(std::log2(largest));
    range_.minimum_log2 = logarithmic_ ? static_cast<float>(std::log2(largest) - decades * std::log2(10.0))
                                       : -std::numeric_limits<float>::infinity();
  }

  double Place(double value) const {
    const auto magnitude_log2 = static_cast<float>(std::log2(std::fabs(value)));
    const auto part = static_cast<double>(ScalePosition(magnitude_log2, range_, logarithmic_));
    return signed_ ? 0.5 + std::copysign(part / 2, value) : part;
  }

  std::vector<Mark> Marks() const {
    std::vector<Mark> marks;
    for (const double value : RoundValues(range_, logarithmic_, logarithmic_ ? kMostPowers : kMostTicks)) {
      // The lowest colour is that of everything below as well.
      if (logarithmic_ && ScalePosition(static_cast<float>(std::log2(value)), range_, true) < 1e-3f) continue;
      Append(value, logarithmic_ ? Power(std::round(std::log10(value))) : FormatNumber("%.3g", value), &marks);
    }
    return marks;
  }

 private:
  static std::string Power(double exponent) {
    return exponent == 0 ? "1" : "10^" + std::to_string(static_cast<int>(exponent));
  }
  void Append(double value, const std::string& label, std::vector<Mark>* marks) const {
    marks->push_back({Place(value), signed_ && value > 0 ? "+" + label : label});
    if (signed_ && value > 0) marks->push_back({Place(-value), "-" + label});
  }

  static constexpr int kMostPowers = 8, kMostTicks = 6;
  const bool signed_, logarithmic_;
  ValueRange range_;
};

struct Region {
  int64_t row_begin, row_end, column_begin, column_end;
};

Region ResolveRegion(const HeadTensors& head, const RenderRequest& request) {
  Region region{request.row_begin, request.row_end, request.column_begin, request.column_end};
  if (region.row_begin == 0 && region.row_end == 0) region.row_end = head.num_rows;
  if (region.column_begin == 0 && region.column_end == 0) region.column_end = head.num_tokens;
  const auto check = [&](const char* what, int64_t begin, int64_t end, int64_t length) {
    if (begin >= 0 && begin < end && end <= length) return;
    throw UsageError(std::string(what) + " " + std::to_string(begin) + ":" + std::to_string(end) + " of head " +
                     HeadName(head.id) + ": choose a range inside 0:" + std::to_string(length));
  };
  check("rows", region.row_begin, region.row_end, head.num_rows);
  check("columns", region.column_begin, region.column_end, head.num_tokens);
  if (request.width < 1 || request.height < 1 || request.width > 16384 || request.height > 16384) {
    throw UsageError("size " + std::to_string(request.width) + "x" + std::to_string(request.height) +
                     ": choose 1 to 16384 pixels each");
  }
  return region;
}

// As many texels as there are pixels, or as there are rows (columns) where those are fewer: then one is several pixels
// wide.
std::vector<int64_t> CutEvenly(int64_t begin, int64_t end, int64_t pixels) {
  const int64_t count = std::min(end - begin, pixels);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i <= count; ++i) edges.push_back(begin + i * (end - begin) / count);
  return edges;
}

// Of a cut trace: how much of the drawn rows' mass is on tokens that are not there to be drawn. Empty for a whole one.
std::string OutsideText(const HeadTensors& head, const Region& region, const std::stop_token& stop) {
  if (head.first_token == 0) return {};
  const double outside = MeanOutsideMass(head, MassInTrace(head, 0, stop), region.row_begin, region.row_end);
  return outside > 0 ? FormatNumber(", %.3g of the mass outside", outside) : std::string();
}

std::string Title(const HeadTensors& head, const RenderRequest& request, const std::string& outside) {
  const std::string by = request.reduction == TileReduction::kMean ? "mean of a pixel" : "maximum of a pixel";
  std::string text = "head ";
  text += HeadName(head.id);
  switch (request.view) {
    case ViewKind::kScores:
      return text + ": attention probability, " + by + outside;
    case ViewKind::kMask:
      return text + ": kept share of the pairs of a pixel";
    case ViewKind::kDifference:
      break;
  }
  return text + ": sparse less dense probability, " +
         (request.reduction == TileReduction::kMean ? "mean of a pixel" : "largest of a pixel") + outside;
}

class Picture {
 public:
  Picture(const HeadTensors& head, const RenderRequest& request, const Region& region, const Palette& palette)
      : head_(head),
        request_(request),
        region_(region),
        palette_(palette),
        title_(Title(head, request,
                     request.view == ViewKind::kMask ? std::string() : OutsideText(head, region, request.stop))),
        ground_(request.dark_ground ? kDarkGround : kLightGround),
        scale_(request.width >= 600 ? 2 : 1),
        left_(Drawing::TextHeight(scale_) + Drawing::TextWidth("131,072", scale_) + 5 * kGap * scale_),
        top_(Drawing::TextHeight(scale_) + 2 * kGap * scale_),
        drawing_(left_ + request.width + (kBarWidth + 5 * kGap) * scale_ + Drawing::TextWidth("+10^-10", scale_),
                 top_ + request.height + 2 * Drawing::TextHeight(scale_) + 5 * kGap * scale_, ground_.paper) {}

  ImageRgb Draw(const MapValues& map, const Scale& scale) {
    DrawMap(map, scale);
    DrawAxes();
    DrawBar(scale);
    drawing_.Text(left_, kGap * scale_, title_, FittingScale(), ground_.ink);
    return drawing_.Take();
  }

 private:
  static constexpr int32_t kGap = 4;
  static constexpr int32_t kBarWidth = 10;

  // A narrow picture has a small title rather than a cut one.
  int32_t FittingScale() const { return Drawing::TextWidth(title_, scale_) <= request_.width + left_ / 2 ? scale_ : 1; }

  Rgb At(double place) const { return ColorAt(palette_, place); }

  void DrawMap(const MapValues& map, const Scale& scale) {
    for (int32_t y = 0; y < request_.height; ++y) {
      for (int32_t x = 0; x < request_.width; ++x) {
        const int64_t texel =
            y * map.num_rows / request_.height * map.num_columns + x * map.num_columns / request_.width;
        const double value = map.values[static_cast<size_t>(texel)];
        drawing_.SetPixel(left_ + x, top_ + y, std::isnan(value) ? ground_.no_pairs : At(scale.Place(value)));
      }
    }
  }

  void DrawAxes() {
    const int32_t bottom = top_ + request_.height;
    const int32_t text_height = Drawing::TextHeight(scale_);
    Frame(left_, top_, request_.width, request_.height);
    const int32_t across = std::max(2, request_.width / (Drawing::TextWidth("131,072", scale_) + 16));
    for (const double tick :
         RoundTicks(static_cast<double>(region_.column_begin), static_cast<double>(region_.column_end), across, true)) {
      const double part = (tick - static_cast<double>(region_.column_begin)) /
                          static_cast<double>(region_.column_end - region_.column_begin);
      const int32_t x = left_ + static_cast<int32_t>(std::lround(part * request_.width));
      const std::string label = GroupThousands(std::llround(tick));
      drawing_.FillRectangle(x, bottom, scale_, kGap * scale_, ground_.ink);
      drawing_.Text(x - Drawing::TextWidth(label, scale_) / 2, bottom + (kGap + 2) * scale_, label, scale_,
                    ground_.ink);
    }
    const std::string columns = "key token";
    drawing_.Text(left_ + (request_.width - Drawing::TextWidth(columns, scale_)) / 2,
                  bottom + text_height + (2 * kGap + 2) * scale_, columns, scale_, ground_.ink);
    // Rows are labelled by the token position of the query, which is not the row's number when only some rows were
    // recorded.
    const int32_t down = std::max(2, request_.height / (4 * text_height));
    for (const double tick :
         RoundTicks(static_cast<double>(region_.row_begin), static_cast<double>(region_.row_end - 1), down, true)) {
      const auto row = static_cast<int64_t>(std::llround(tick));
      const double part =
          (tick - static_cast<double>(region_.row_begin)) / static_cast<double>(region_.row_end - region_.row_begin);
      const int32_t y = top_ + static_cast<int32_t>(std::lround(part * request_.height));
      const std::string label = GroupThousands(head_.row_positions[static_cast<size_t>(row)]);
      drawing_.FillRectangle(left_ - kGap * scale_, y, kGap * scale_, scale_, ground_.ink);
      drawing_.Text(left_ - (kGap + 2) * scale_ - Drawing::TextWidth(label, scale_), y - text_height / 2, label, scale_,
                    ground_.ink);
    }
    const std::string rows = "query token";
    drawing_.TextUpwards(kGap * scale_, top_ + (request_.height + Drawing::TextWidth(rows, scale_)) / 2, rows, scale_,
                         ground_.ink);
  }

  void DrawBar(const Scale& scale) {
    const int32_t x = left_ + request_.width + 3 * kGap * scale_;
    const int32_t width = kBarWidth * scale_;
    const int32_t height = request_.height;
    for (int32_t y = 0; y < height; ++y) {
      drawing_.FillRectangle(x, top_ + y, width, 1, At(1 - (y + 0.5) / height));
    }
    Frame(x, top_, width, height);
    for (const Scale::Mark& mark : scale.Marks()) {
      const int32_t y = top_ + static_cast<int32_t>(std::lround((1 - mark.place) * height));
      drawing_.FillRectangle(x + width, y, kGap * scale_ / 2, scale_, ground_.ink);
      drawing_.Text(x + width + kGap * scale_, y - Drawing::TextHeight(scale_) / 2, mark.label, scale_, ground_.ink);
    }
  }

  void Frame(int32_t x, int32_t y, int32_t width, int32_t height) {
    drawing_.FillRectangle(x - 1, y - 1, width + 2, 1, ground_.ink);
    drawing_.FillRectangle(x - 1, y + height, width + 2, 1, ground_.ink);
    drawing_.FillRectangle(x - 1, y - 1, 1, height + 2, ground_.ink);
    drawing_.FillRectangle(x + width, y - 1, 1, height + 2, ground_.ink);
  }

  const HeadTensors& head_;
  const RenderRequest& request_;
  const Region region_;
  const Palette& palette_;
  const std::string title_;
  const Ground& ground_;
  const int32_t scale_, left_, top_;
  Drawing drawing_;
};

}  // namespace

ImageRgb RenderHead(const HeadTensors& head, const kernels::SparseIndexView* index, const RenderRequest& request) {
  const Region region = ResolveRegion(head, request);
  // A signed quantity needs a map with a middle, whatever was asked for.
  const std::string name = request.view == ViewKind::kDifference ? "coolwarm" : request.color_map;
  const ColorMap* const colors = FindColorMap(name);
  if (colors == nullptr)
    throw UsageError("colour map '" + name + "' is unknown: choose for instance viridis, inferno or gray");
  const TexelEdges edges = {CutEvenly(region.row_begin, region.row_end, request.height),
                            CutEvenly(region.column_begin, region.column_end, request.width)};
  try {
    const MapValues map = ComputeMapValues(head, index, request, edges);
    if (map.values.empty()) return {};
    ImageRgb image =
        Picture(head, request, region, colors->palette).Draw(map, Scale(map, request.view, request.logarithmic));
    image.device = map.device;
    return image;
  } catch (const CancelledError&) {
    return {};
  }
}

}  // namespace headscope::analysis
