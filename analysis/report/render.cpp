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
#include "base/quoted_text.h"
#include "head/head_checks.h"
#include "report/axis.h"
#include "report/head_map.h"
#include "report/map_values.h"

namespace headscope::analysis {
namespace {

// Decades below the largest value that a logarithmic scale shows: what lies deeper has the lowest colour.
constexpr double kScoreDecades = 6;
constexpr double kDifferenceDecades = 4;

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

  // Of a probability, where the view's values are differences, too.
  double PlaceOfProbability(double probability) const {
    return static_cast<double>(ScalePosition(static_cast<float>(std::log2(probability)), range_, logarithmic_));
  }
  double ProbabilityAt(double place) const {
    return std::exp2(static_cast<double>(ScaleValue(static_cast<float>(place), range_, logarithmic_)));
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

// Where the spans lie along an axis whose places are `at` of a token, within 0..1.
template <typename Place>
std::vector<MapStretch> Stretches(const std::vector<TokenSpan>& spans, const Place& at) {
  std::vector<MapStretch> stretches;
  for (const TokenSpan& span : spans) {
    const MapStretch stretch{std::clamp(at(span.begin), 0.0, 1.0), std::clamp(at(span.end), 0.0, 1.0)};
    if (stretch.begin < stretch.end) stretches.push_back(stretch);  // in view, and of the queries some were recorded
  }
  return stretches;
}

void MarkAnswers(const std::vector<TokenSpan>& answers, HeadMap* map) {
  const auto begin = static_cast<double>(map->column_begin), end = static_cast<double>(map->column_end);
  map->key_answers =
      Stretches(answers, [&](int64_t token) { return (static_cast<double>(token) - begin) / (end - begin); });
  const std::vector<int32_t>& rows = map->row_positions;
  map->row_answers = Stretches(answers, [&](int64_t token) {
    const auto first = std::lower_bound(rows.begin(), rows.end(), token);
    return static_cast<double>(first - rows.begin()) / static_cast<double>(rows.size());
  });
}

// The curves beside the map. `edges` and `values` are the map's; kept_mass is of the rows from `first_row` on.
MapCurves CurvesOf(const MapValues& values, const TexelEdges& edges, const std::vector<float>* kept_mass,
                   int64_t first_row, const ColorScale& scale) {
  MapCurves curves;
  std::optional<ProfilePeak> key_peak;
  double most = 0;
  for (size_t i = 0; i < values.key_mean.size(); ++i) {
    const double mean = values.key_mean[i];
    curves.keys.push_back(std::isnan(mean) ? mean : scale.PlaceOfProbability(mean));
    if (!std::isnan(mean) && (!key_peak || static_cast<float>(mean) > key_peak->value))
      key_peak = ProfilePeak{static_cast<float>(mean), edges.columns[i], edges.columns[i + 1]};
  }
  for (size_t i = 0; i < values.row_mass.size(); ++i) {
    curves.rows.push_back(std::clamp(values.row_mass[i], 0.0, 1.0));
    most = std::max(most, values.row_mass[i]);
    if (kept_mass == nullptr) continue;
    // The row that loses most must not hide.
    const int64_t begin = std::max(edges.rows[i] - first_row, int64_t{0});
    const int64_t end = std::min(edges.rows[i + 1] - first_row, static_cast<int64_t>(kept_mass->size()));
    curves.kept.push_back(begin >= end ? std::numeric_limits<double>::quiet_NaN()
                                       : std::clamp(static_cast<double>(*std::min_element(kept_mass->begin() + begin,
                                                                                          kept_mass->begin() + end)),
                                                    0.0, 1.0));
  }
  constexpr std::array kPlaces = {0.0, 0.5, 1.0};
  for (size_t i = 0; i < kPlaces.size(); ++i)
    curves.key_marks[i] = (kPlaces[i] == 1 ? "p = " : "") + FormatProbability(scale.ProbabilityAt(kPlaces[i]));
  curves.key_text = DescribeKeyProfile(key_peak);
  curves.row_text = "max " + FormatProbability(most).substr(0, 4);
  return curves;
}

MapLanes LanesOf(const KeptSteps& kept, const HeadMap& map) {
  MapLanes lanes;
  const auto begin = static_cast<double>(map.column_begin), end = static_cast<double>(map.column_end);
  const auto stretch = [&](const kernels::ColumnRange& range) {
    return MapStretch{std::clamp((range.begin - begin) / (end - begin), 0.0, 1.0),
                      std::clamp((range.end - begin) / (end - begin), 0.0, 1.0)};
  };
  for (const KeptStep& step : kept.steps) {
    MapLanes::Lane& lane = lanes.lanes.emplace_back();
    lane.attended = stretch(step.attended);
    for (const kernels::ColumnRange& range : step.kept) {
      const MapStretch one = stretch(range);
      if (one.begin < one.end) lane.kept.push_back(one);
    }
  }
  const size_t count = kept.steps.size();
  lanes.labels = {"kept by", count == 1 ? "query" : std::to_string(count) + " queries,",
                  std::to_string(kept.steps.front().position)};
  if (count > 1) lanes.labels.push_back("to " + std::to_string(kept.steps.back().position));
  return lanes;
}

MapOnShow WhatIsOnShow(const HeadTensors& head, const RenderSources& sources, const RenderRequest& request,
                       const HeadMap& map) {
  MapOnShow shown;
  shown.view = request.view;
  shown.head = head.id;
  shown.kv_head = head.kv_head;
  shown.source = sources.source;
  shown.source.num_tokens = head.num_tokens;
  shown.source.first_token = head.first_token;
  shown.first_query = map.row_positions.front();
  shown.last_query = map.row_positions.back();
  shown.first_key = map.column_begin;
  shown.last_key = map.column_end - 1;
  shown.reduction = request.reduction;
  shown.logarithmic = request.logarithmic;
  shown.profiles = request.profiles;
  shown.causal = !head.bidirectional;
  shown.answers = !map.key_answers.empty() || !map.row_answers.empty();
  shown.method = sources.method;
  shown.other_method = sources.other_method;
  shown.overlap = sources.overlap;
  if (sources.other != nullptr) shown.other_head = sources.other->id;
  shown.other_trace = sources.other_trace;
  if (head.first_token > 0)
    shown.outside_mass = MeanOutsideMass(head, MassInTrace(head, 0, request.stop), 0, head.num_rows);
  return shown;
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
  int64_t compared_rows = 0;
  if (request.view == ViewKind::kOther) {
    const CommonPart part = PartInCommon(head, sources.other);
    region = Within(part, region, head);
    if (part.is_shorter) compared_rows = part.num_rows;
  }
  // A signed quantity needs a map with a middle, whatever was asked for.
  const std::string name = IsSigned(request.view) ? "coolwarm" : request.color_map;
  const ColorMap* const colors = FindColorMap(name);
  if (colors == nullptr)
    throw UsageError({.field = "color-map",
                      .value = Quoted(name),
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
    map.hatched.push_back(std::isnan(value));
    if (map.hatched.back()) {
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
    for (size_t by = 0; by < kNumKeptBy; ++by) map.swatches.push_back({kKeptByColors[by], kKeptByNames[by]});
  } else {
    map.palette = &colors->palette;
    map.bar_marks = scale.Marks();
  }
  map.row_begin = region.row_begin;
  map.column_begin = region.column_begin;
  map.column_end = region.column_end;
  map.row_positions.assign(head.row_positions.begin() + region.row_begin, head.row_positions.begin() + region.row_end);
  MarkAnswers(sources.answers, &map);
  const bool masked = request.view != ViewKind::kScores && request.view != ViewKind::kOther;
  if (request.profiles)
    map.curves = CurvesOf(values, edges, masked ? sources.kept_mass : nullptr,
                          sources.steps == nullptr ? 0 : sources.steps->first_row, scale);
  if (masked && sources.steps != nullptr) map.lanes = LanesOf(*sources.steps, map);
  MapOnShow shown = WhatIsOnShow(head, sources, request, map);
  shown.compared_rows = compared_rows;
  map.caption = DescribeMap(shown);
  if (map.palette != nullptr) map.bar_title = DescribeColorBar(shown);
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
