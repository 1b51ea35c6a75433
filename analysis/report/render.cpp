// SPDX-License-Identifier: Apache-2.0
// What a head's map shows: its colours, its axes in tokens, its colour bar and its title.
#include <algorithm>
#include <array>
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
#include "base/file_format.h"
#include "head/head_checks.h"
#include "report/axis.h"
#include "report/head_map.h"
#include "report/map_values.h"

namespace headscope::analysis {
namespace {

// Decades below the largest value that a logarithmic scale shows: what lies deeper has the lowest colour.
constexpr double kScoreDecades = 6;
constexpr double kDifferenceDecades = 4;

bool IsSigned(ViewKind view) {
  return view == ViewKind::kDifference || view == ViewKind::kOther;
}

// From a value to a place on the colour map, and the marks of the colour bar.
class ColorScale {
 public:
  ColorScale(const MapValues& map, const RenderRequest& request)
      : signed_(IsSigned(request.view)), logarithmic_(request.logarithmic && request.view != ViewKind::kMask) {
    const ViewKind view = request.view;
    if (request.range && view != ViewKind::kMask) {
      range_ = *request.range;
      return;
    }
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

  std::vector<MapMark> Marks() const {
    std::vector<MapMark> marks;
    for (const double value : RoundValues(range_, logarithmic_, logarithmic_ ? kMostPowers : kMostTicks)) {
      // The lowest colour is that of everything below as well.
      if (logarithmic_ && ScalePosition(static_cast<float>(std::log2(value)), range_, true) < 1e-3f) continue;
      Append(value, logarithmic_ ? Power(std::round(std::log10(value))) : FormatNumber("%.3g", value), &marks);
    }
    return marks;
  }

 private:
  static std::string Power(double exponent) {
    if (exponent == 0) return "1";
    constexpr std::array kRaised = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    std::string text = "10";
    for (const char letter : std::to_string(static_cast<int>(exponent)))
      text += letter == '-' ? "⁻" : kRaised[static_cast<size_t>(letter - '0')];
    return text;
  }
  void Append(double value, const std::string& label, std::vector<MapMark>* marks) const {
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
    throw UsageError({.field = what,
                      .value = std::to_string(begin) + ":" + std::to_string(end),
                      .problem = "head " + HeadName(head.id) + " has " + std::to_string(length),
                      .remedy = "choose a range inside 0:" + std::to_string(length)});
  };
  check("rows", region.row_begin, region.row_end, head.num_rows);
  check("columns", region.column_begin, region.column_end, head.num_tokens);
  if (request.width < 1 || request.height < 1 || request.width > 16384 || request.height > 16384) {
    throw UsageError({.field = "size",
                      .value = std::to_string(request.width) + "x" + std::to_string(request.height),
                      .problem = "choose 1 to 16384 pixels each"});
  }
  return region;
}

// What of the region both heads have.
Region Within(const CommonPart& part, Region region, const HeadTensors& head) {
  region.row_end = std::min(region.row_end, part.num_rows);
  region.column_end = std::min(region.column_end, part.num_columns);
  if (region.row_begin < region.row_end && region.column_begin < region.column_end) return region;
  throw UsageError({.field = "rows from " + std::to_string(region.row_begin) + " and columns from " +
                             std::to_string(region.column_begin) + " of head " + HeadName(head.id),
                    .problem = "the other head has none of them in common with it",
                    .remedy = "choose rows inside 0:" + std::to_string(part.num_rows) +
                              " and columns inside 0:" + std::to_string(part.num_columns)});
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

// As the window's shader colours them (ui/canvas/map_shader.h).
Rgb Mixed(const std::array<double, 3>& a, const std::array<double, 3>& b, double part_of_b) {
  const auto channel = [&](size_t i) {
    return static_cast<uint8_t>(std::lround(255 * std::clamp(a[i] + (b[i] - a[i]) * part_of_b, 0.0, 1.0)));
  };
  return {channel(0), channel(1), channel(2)};
}

std::array<double, 3> Parts(Rgb color) {
  return {color.red / 255.0, color.green / 255.0, color.blue / 255.0};
}

double Grey(const std::array<double, 3>& parts) {
  return 0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2];
}

// The square root shows a thin line of kept pairs inside a large texel.
Rgb KeptColor(Rgb color, double kept) {
  const std::array<double, 3> parts = Parts(color);
  const double grey = 0.10 + 0.32 * Grey(parts);
  return Mixed({grey, grey, grey}, parts, std::sqrt(kept));
}

Rgb OverlapColor(Rgb color, double place, const std::array<double, kNumKeptBy>& shares) {
  std::array<double, 3> who{};
  double weight = 0, share = 0;
  for (size_t by = 0; by < kNumKeptBy; ++by) {
    const double root = std::sqrt(shares[by]);
    weight += root;
    share += shares[by];
    const std::array<double, 3> parts = Parts(kKeptByColors[by]);
    for (size_t i = 0; i < parts.size(); ++i) who[i] += root * parts[i];
  }
  for (double& part : who) part *= (0.55 + 0.45 * place) / std::max(weight, 1e-6);
  const double nobody = 0.10 + 0.22 * Grey(Parts(color));
  return Mixed({nobody, nobody, nobody}, who, std::sqrt(std::min(share, 1.0)));
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
    case ViewKind::kOverlay:
      return text + ": attention probability, " + by + "; grey: left out" + outside;
    case ViewKind::kLost:
      return text + ": attention probability, " + by + "; grey: kept" + outside;
    case ViewKind::kOther:
      return text + ": probability of the other head minus this one's, " + by + outside;
    case ViewKind::kOverlap:
      return text + ": which method keeps a pair, brighter for higher probability" + outside;
    case ViewKind::kDifference:
      break;
  }
  return text + ": sparse minus dense probability, " +
         (request.reduction == TileReduction::kMean ? "mean of a pixel" : "largest of a pixel") + outside;
}

}  // namespace

std::vector<MapMark> HeadMap::ColumnMarks(int most) const {
  std::vector<MapMark> marks;
  const auto begin = static_cast<double>(column_begin), end = static_cast<double>(column_end);
  for (const double tick : RoundTicks(begin, end, most, true))
    marks.push_back({(tick - begin) / (end - begin), GroupThousands(std::llround(tick))});
  return marks;
}

std::vector<MapMark> HeadMap::RowMarks(int most) const {
  // Rows are labelled by the token position of the query, which is not the row's number when only some rows were
  // recorded.
  std::vector<MapMark> marks;
  const auto begin = static_cast<double>(row_begin);
  const auto rows = static_cast<double>(row_positions.size());
  for (const double tick : RoundTicks(begin, begin + rows - 1, most, true)) {
    const auto row = static_cast<size_t>(std::llround(tick) - row_begin);
    marks.push_back({(tick - begin) / rows, GroupThousands(row_positions[row])});
  }
  return marks;
}

HeadMap MakeHeadMap(const HeadTensors& head, const RenderSources& sources, const RenderRequest& request) {
  Region region = ResolveRegion(head, request);
  std::string shorter;
  if (request.view == ViewKind::kOther) {
    const CommonPart part = PartInCommon(head, sources.other);
    region = Within(part, region, head);
    if (part.is_shorter) shorter = ", of the first " + GroupThousands(part.num_rows) + " queries, which both have";
  }
  // A signed quantity needs a map with a middle, whatever was asked for.
  const std::string name = IsSigned(request.view) ? "coolwarm" : request.color_map;
  const ColorMap* const colors = FindColorMap(name);
  if (colors == nullptr)
    throw UsageError({.field = "color-map",
                      .value = "'" + name + "'",
                      .problem = "it is unknown",
                      .remedy = "choose, for example, viridis, inferno or gray"});
  const TexelEdges edges = {CutEvenly(region.row_begin, region.row_end, request.height),
                            CutEvenly(region.column_begin, region.column_end, request.width)};
  HeadMap map;
  const MapValues values = ComputeMapValues(head, sources, request, edges);
  map.ground = request.dark_ground ? kDarkGround : kLightGround;
  map.num_rows = values.num_rows;
  map.num_columns = values.num_columns;
  map.device = values.device;
  const ColorScale scale(values, request);
  for (size_t i = 0; i < values.values.size(); ++i) {
    const double value = values.values[i];
    if (std::isnan(value)) {
      map.texels.push_back(map.ground.no_pairs);
      continue;
    }
    const double place = scale.Place(value);
    Rgb color = ColorAt(colors->palette, place);
    if (!values.kept.empty())
      color = KeptColor(color, request.view == ViewKind::kLost ? 1 - values.kept[i] : values.kept[i]);
    if (!values.kept_by.empty()) color = OverlapColor(color, place, values.kept_by[i]);
    map.texels.push_back(color);
  }
  if (request.view == ViewKind::kOverlap) {
    constexpr std::array kNames = {"first only", "second only", "both"};
    for (size_t by = 0; by < kNumKeptBy; ++by) map.swatches.push_back({kKeptByColors[by], kNames[by]});
  } else {
    map.palette = &colors->palette;
    map.bar_marks = scale.Marks();
  }
  map.title = Title(head, request,
                    request.view == ViewKind::kMask ? shorter : shorter + OutsideText(head, region, request.stop));
  map.row_begin = region.row_begin;
  map.column_begin = region.column_begin;
  map.column_end = region.column_end;
  map.row_positions.assign(head.row_positions.begin() + region.row_begin, head.row_positions.begin() + region.row_end);
  return map;
}

NamedDevice DrawHeadMap(const HeadTensors& head, const RenderSources& sources, const RenderRequest& request,
                        const std::string& path) {
  const HeadMap map = MakeHeadMap(head, sources, request);
  if (FindFileFormat(path) == FileFormat::kSvg) {
    PaintSvg(map, request.width, request.height, path);
  } else {
    PaintWithCairo(map, request.width, request.height, path);
  }
  return map.device;
}

}  // namespace headscope::analysis
