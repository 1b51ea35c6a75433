// SPDX-License-Identifier: Apache-2.0
// One painter of figures: cairo writes what it paints as SVG, PDF or PNG.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "analysis/figure_drawing.h"
#include "analysis/types/color_map.h"
#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/errors.h"
#include "figures/axis_ticks.h"
#include "figures/cairo_canvas.h"

namespace headscope::analysis {
namespace {

constexpr double kTitleSize = 15, kPanelTitleSize = 11, kTextSize = 9, kMargin = 14;
constexpr size_t kPlainColors = 7;
// Okabe and Ito's palette, apart for colour-blind eyes.
constexpr std::array<Rgb, kPlainColors - 1> kColors = {Rgb{0, 114, 178},   Rgb{213, 94, 0},  Rgb{0, 158, 115},
                                                       Rgb{204, 121, 167}, Rgb{230, 159, 0}, Rgb{86, 180, 233}};

// How a series is told from others: by its colour and, of lines, its dashes, of points, their shape.
struct Look {
  Rgb color;
  size_t variant = 0;
};

struct LegendEntry {
  std::string name;
  Look look;
  bool is_dot = false;
};

struct Looks {
  std::vector<Look> of_series;
  std::vector<LegendEntry> legend;
};

size_t PlaceIn(std::vector<std::string>* names, const std::string& name) {
  const auto at = std::find(names->begin(), names->end(), name);
  const auto place = static_cast<size_t>(at - names->begin());
  if (at == names->end()) names->push_back(name);
  return place;
}

// The parts of traces share a colour, the traces dashes or shapes. Colours of an order are those of a palette; of
// others the first kPlainColors have one of their own, the last of these a grey of the page, and those behind have the
// same again with dashes.
Looks LooksOf(const FigurePanel& panel, const CairoCanvas& canvas) {
  std::vector<std::string> parts, traces;
  std::vector<size_t> place_of_series;
  for (size_t i = 0; i < panel.series.size(); ++i) {
    const FigureSeries& series = panel.series[i];
    // A series of its own is a part that no other has.
    const std::string own = series.part.empty() ? "\n" + std::to_string(i) : series.part;
    place_of_series.push_back(series.reference ? 0 : PlaceIn(&parts, own));
    if (!series.trace.empty()) PlaceIn(&traces, series.trace);
  }
  const auto color_at = [&](size_t place) {
    if (panel.ordered && parts.size() > 2)
      return ColorAt(SequentialPalette(),
                     0.1 + 0.8 * static_cast<double>(place) / static_cast<double>(parts.size() - 1));
    const size_t plain = place % kPlainColors;
    return plain + 1 < kPlainColors ? kColors[plain] : canvas.inks().quiet;
  };
  const bool dots = panel.kind == FigureKind::kPoints;
  Looks looks;
  std::vector<std::string> named;
  for (size_t i = 0; i < panel.series.size(); ++i) {
    const FigureSeries& series = panel.series[i];
    // A reference's dashes are no trace's.
    Look look{series.reference ? canvas.inks().ink : color_at(place_of_series[i]),
              series.reference ? std::max<size_t>(1, traces.size()) : 0};
    if (!series.trace.empty())
      look.variant = PlaceIn(&traces, series.trace);
    else if (!series.reference && !panel.ordered)
      look.variant = place_of_series[i] / kPlainColors;
    looks.of_series.push_back(look);
    if (!series.part.empty()) {
      const size_t known = named.size();
      if (PlaceIn(&named, series.part) < known) continue;
      look.variant = series.trace.empty() ? look.variant : 0;
    }
    looks.legend.push_back({series.part.empty() ? series.name : series.part, look, dots || series.dots});
  }
  for (size_t trace = 0; trace < traces.size(); ++trace)
    looks.legend.push_back({traces[trace], {canvas.inks().ink, trace}, dots});
  return looks;
}

// From a value to a place along an axis.
struct Scale {
  double least = 0, most = 1;
  bool logarithmic = false;
  double begin = 0, end = 1;
  double At(double value) const {
    const double place =
        logarithmic ? std::log(value / least) / std::log(most / least) : (value - least) / (most - least);
    return begin + place * (end - begin);
  }
};

template <typename Visit>
void VisitValues(const FigurePanel& panel, std::vector<double> FigureSeries::*values, Visit&& visit) {
  for (const FigureSeries& series : panel.series) {
    for (const double value : series.*values) {
      if (std::isfinite(value)) visit(value);
    }
  }
}

// The axis' own range, or that of the values with a little room.
Scale ScaleOf(const FigureAxis& axis, const FigurePanel& panel, std::vector<double> FigureSeries::*values,
              bool from_zero) {
  Scale scale;
  scale.logarithmic = axis.logarithmic;
  if (axis.minimum != axis.maximum) {
    scale.least = axis.minimum;
    scale.most = axis.maximum;
    return scale;
  }
  double least = std::numeric_limits<double>::infinity(), most = -least;
  VisitValues(panel, values, [&](double value) {
    if (axis.logarithmic && value <= 0) return;
    least = std::min(least, value);
    most = std::max(most, value);
  });
  if (least > most) return scale.least = axis.logarithmic ? 1 : 0, scale.most = axis.logarithmic ? 10 : 1, scale;
  if (axis.logarithmic) {
    scale.least = least / 1.15;
    scale.most = most * 1.15;
    return scale;
  }
  if (from_zero) {
    least = std::min(least, 0.0);
    most = std::max(most, 0.0);
  }
  const double room = most > least ? 0.05 * (most - least) : std::max(0.5, 0.1 * std::fabs(most));
  scale.least = from_zero && least == 0 ? 0 : least - room;
  scale.most = from_zero && most == 0 ? 0 : most + room;
  return scale;
}

void DrawYAxis(const FigureAxis& axis, const Scale& scale, const Area& plot, const Area& area, CairoCanvas* canvas) {
  for (const AxisTick& tick : AxisTicks(scale.least, scale.most, scale.logarithmic, 6)) {
    const double y = scale.At(tick.value);
    canvas->Line(plot.x, y, plot.right(), y, canvas->inks().grid, 0.5);
    canvas->Text(plot.x - 4, y + kTextSize / 3, tick.text, kTextSize, Anchor::kRight);
  }
  canvas->TextUpwards(area.x + kTextSize, plot.y + plot.height / 2, canvas->Fitted(axis.title, plot.height, kTextSize),
                      kTextSize);
}

void DrawXTitle(const FigureAxis& axis, const Area& plot, CairoCanvas* canvas) {
  canvas->Text(plot.x + plot.width / 2, plot.bottom() + 2.6 * kTextSize,
               canvas->Fitted(axis.title, plot.width, kTextSize), kTextSize, Anchor::kCentre);
}

void DrawFrame(const Area& plot, CairoCanvas* canvas) {
  canvas->Line(plot.x, plot.bottom(), plot.right(), plot.bottom(), canvas->inks().ink);
  canvas->Line(plot.x, plot.y, plot.x, plot.bottom(), canvas->inks().ink);
}

// What is drawn before a name: of dashes their whole pattern, and where it begins again.
double SwatchWidth(const LegendEntry& entry) {
  constexpr double kLeast = 10;
  const std::vector<double> lengths = CairoCanvas::Dashes(entry.is_dot ? 0 : entry.look.variant);
  return lengths.empty() ? kLeast : std::max(kLeast, std::accumulate(lengths.begin(), lengths.end(), lengths.front()));
}

// As many lines as it takes; returns its height. With canvas null nothing is drawn, and widths are `measure`'s.
double Legend(const FigurePanel& panel, double x, double y, double width, bool draw, CairoCanvas* canvas) {
  if (panel.kind == FigureKind::kHeat || (panel.series.size() < 2 && panel.series.front().name.empty())) return 0;
  double at = x, line = y;
  for (const LegendEntry& entry : LooksOf(panel, *canvas).legend) {
    const double swatch = SwatchWidth(entry);
    const std::string name = canvas->Fitted(entry.name, width - swatch - 4, kTextSize);
    const double needed = swatch + 4 + canvas->Width(name, kTextSize) + 10;
    if (at > x && at + needed - 10 > x + width) {
      at = x;
      line += 1.3 * kTextSize;
    }
    if (draw) {
      const double middle = line - kTextSize * 0.35;
      if (entry.is_dot)
        canvas->Dot(at + swatch / 2, middle, 3, entry.look.color, entry.look.variant);
      else
        canvas->Line(at, middle, at + swatch, middle, entry.look.color, 3, entry.look.variant);
      canvas->Text(at + swatch + 4, line, name, kTextSize);
    }
    at += needed;
  }
  return line - y + 1.6 * kTextSize;
}

void DrawXY(const FigurePanel& panel, const Area& plot, const Area& area, CairoCanvas* canvas) {
  Scale x = ScaleOf(panel.x, panel, &FigureSeries::x, false), y = ScaleOf(panel.y, panel, &FigureSeries::y, false);
  std::tie(x.begin, x.end) = std::pair(plot.x, plot.right());
  std::tie(y.begin, y.end) = std::pair(plot.bottom(), plot.y);
  DrawYAxis(panel.y, y, plot, area, canvas);
  for (const AxisTick& tick : AxisTicks(x.least, x.most, x.logarithmic, static_cast<int>(plot.width / 36))) {
    canvas->Line(x.At(tick.value), plot.bottom(), x.At(tick.value), plot.bottom() + 3, canvas->inks().ink, 0.6);
    canvas->Text(x.At(tick.value), plot.bottom() + 3 + kTextSize, tick.text, kTextSize, Anchor::kCentre);
  }
  DrawXTitle(panel.x, plot, canvas);
  DrawFrame(plot, canvas);
  canvas->Clip({plot.x - 3, plot.y - 3, plot.width + 6, plot.height + 6});
  if (panel.diagonal) {
    const double least = std::max(x.least, y.least), most = std::min(x.most, y.most);
    if (least < most) canvas->Line(x.At(least), y.At(least), x.At(most), y.At(most), canvas->inks().ink, 0.8, 1);
  }
  const Looks looks = LooksOf(panel, *canvas);
  for (size_t i = 0; i < panel.series.size(); ++i) {
    const FigureSeries& series = panel.series[i];
    const Look& look = looks.of_series[i];
    const auto is_there = [&](size_t at) {
      return std::isfinite(series.x[at]) && std::isfinite(series.y[at]) && (!x.logarithmic || series.x[at] > 0) &&
             (!y.logarithmic || series.y[at] > 0);
    };
    const bool apart = panel.kind == FigureKind::kPoints || series.dots;
    std::vector<CairoCanvas::Position> together;  // points that a line joins: of neighbours all that are there
    for (size_t at = 0; at < series.y.size(); ++at) {
      if (!is_there(at)) {
        canvas->Polyline(std::exchange(together, {}), look.color, 1.3, look.variant);
        continue;
      }
      if (!apart) together.push_back({x.At(series.x[at]), y.At(series.y[at])});
      if (apart || series.y.size() <= 24)
        canvas->Dot(x.At(series.x[at]), y.At(series.y[at]),
                    series.dots ? 2.6
                    : apart     ? 1.8
                                : 1.6,
                    look.color, apart ? look.variant : 0);
    }
    canvas->Polyline(together, look.color, 1.3, look.variant);
  }
  canvas->Unclip();
}

// Below a group of bars, in one line or, where the axis has no title, in two.
void DrawCategory(const std::string& name, double middle, double y, double width, bool two_lines, CairoCanvas* canvas) {
  const size_t space = name.find_last_of(' ', name.size() / 2 + 2);
  std::string first = name, second;
  if (two_lines && space != std::string::npos && canvas->Width(name, kTextSize) > width) {
    first = name.substr(0, space);
    second = name.substr(space + 1);
  }
  canvas->Text(middle, y, canvas->Fitted(first, width, kTextSize), kTextSize, Anchor::kCentre);
  if (!second.empty())
    canvas->Text(middle, y + 1.2 * kTextSize, canvas->Fitted(second, width, kTextSize), kTextSize, Anchor::kCentre);
}

void DrawBars(const FigurePanel& panel, const Area& plot, const Area& area, CairoCanvas* canvas) {
  const bool stacked = panel.kind == FigureKind::kStack;
  FigurePanel sums = panel;
  if (stacked) {
    FigureSeries sum{"", {}, std::vector<double>(panel.categories.size())};
    for (const FigureSeries& series : panel.series) {
      for (size_t i = 0; i < sum.y.size(); ++i) sum.y[i] += std::isfinite(series.y[i]) ? series.y[i] : 0;
    }
    sums.series = {std::move(sum)};
  }
  Scale y = ScaleOf(panel.y, sums, &FigureSeries::y, true);
  std::tie(y.begin, y.end) = std::pair(plot.bottom(), plot.y);
  DrawYAxis(panel.y, y, plot, area, canvas);
  const double pitch = plot.width / static_cast<double>(panel.categories.size());
  const double group = 0.8 * pitch, bar = stacked ? group : group / static_cast<double>(panel.series.size());
  const Looks looks = LooksOf(panel, *canvas);
  for (size_t category = 0; category < panel.categories.size(); ++category) {
    const double left = plot.x + pitch * static_cast<double>(category) + (pitch - group) / 2;
    double below = 0;
    for (size_t i = 0; i < panel.series.size(); ++i) {
      const double value = panel.series[i].y[category];
      if (!std::isfinite(value)) continue;
      const double from = stacked ? below : 0;
      below += value;
      const double top = std::min(y.At(from), y.At(from + value)), bottom = std::max(y.At(from), y.At(from + value));
      canvas->Fill({left + (stacked ? 0 : bar * static_cast<double>(i)), top, bar, bottom - top},
                   looks.of_series[i].color);
    }
    DrawCategory(panel.categories[category], left + group / 2, plot.bottom() + 3 + kTextSize, pitch - 2,
                 panel.x.title.empty(), canvas);
  }
  DrawXTitle(panel.x, plot, canvas);
  DrawFrame(plot, canvas);
}

bool IsBright(Rgb color) {
  return 0.299 * color.red + 0.587 * color.green + 0.114 * color.blue > 140;
}

void DrawHeat(const FigurePanel& panel, Area plot, const Area& area, CairoCanvas* canvas) {
  constexpr double kBar = 8, kTickRoom = 38;
  // What the colours stand for is said beside them where the panel's title does not say it.
  const bool is_named = !panel.value.title.empty() && panel.title.find(panel.value.title) == std::string::npos;
  plot.width -= kBar + kTickRoom + (is_named ? 1.4 * kTextSize : 0);
  Scale value = ScaleOf(panel.value, panel, &FigureSeries::y, false);
  if (panel.value.minimum == panel.value.maximum) {  // no room about the values: a colour for each
    value.least = std::numeric_limits<double>::infinity();
    value.most = -value.least;
    VisitValues(panel, &FigureSeries::y, [&](double one) {
      value.least = std::min(value.least, one);
      value.most = std::max(value.most, one);
    });
    if (!(value.least < value.most)) value.most = (value.least = std::isfinite(value.least) ? value.least : 0) + 1;
  }
  const double width = plot.width / static_cast<double>(std::max<size_t>(1, panel.categories.size()));
  const double height = plot.height / static_cast<double>(std::max<size_t>(1, panel.series.size()));
  const auto stride = [](double needed, double pitch) {
    return static_cast<size_t>(std::max(1.0, std::ceil(needed / pitch)));
  };
  double widest = 0;
  for (const std::string& name : panel.categories) widest = std::max(widest, canvas->Width(name, kTextSize) + 4);
  const size_t row_stride = stride(1.2 * kTextSize, height);
  const size_t column_stride = width < 24 ? stride(widest, width) : 1;
  constexpr size_t kFewCells = 16;  // which have room for their numbers
  const bool says_numbers =
      panel.series.size() * panel.categories.size() <= kFewCells && width >= 40 && height >= 2 * kTextSize;
  for (size_t row = 0; row < panel.series.size(); ++row) {
    const double y = plot.y + height * static_cast<double>(row);
    for (size_t column = 0; column < panel.categories.size(); ++column) {
      const double here = panel.series[row].y[column];
      const Area cell{plot.x + width * static_cast<double>(column), y, width - 0.5, height - 0.5};
      const double place = (here - value.least) / (value.most - value.least);
      const Rgb color =
          std::isfinite(here) ? ColorAt(SequentialPalette(), std::clamp(place, 0.0, 1.0)) : canvas->inks().none;
      canvas->Fill(cell, color);
      if (says_numbers && std::isfinite(here)) {
        canvas->Text(cell.x + cell.width / 2, cell.y + cell.height / 2 + kTextSize / 3, FormatNumber("%.3g", here),
                     kTextSize, Anchor::kCentre, IsBright(color) ? kDarkPage.paper : kLightPage.paper);
      }
    }
    if (row % row_stride == 0)
      canvas->Text(plot.x - 4, y + height / 2 + kTextSize / 3,
                   canvas->Fitted(panel.series[row].name, plot.x - area.x - 18, kTextSize), kTextSize, Anchor::kRight);
  }
  for (size_t column = 0; column < panel.categories.size(); column += column_stride) {
    canvas->Text(plot.x + width * (static_cast<double>(column) + 0.5), plot.bottom() + 3 + kTextSize,
                 canvas->Fitted(panel.categories[column],
                                std::max(width * static_cast<double>(column_stride) - 2, 12.0), kTextSize),
                 kTextSize, Anchor::kCentre);
  }
  DrawXTitle(panel.x, plot, canvas);
  canvas->TextUpwards(area.x + kTextSize, plot.y + plot.height / 2, panel.y.title, kTextSize);
  // The colours' bar.
  constexpr int kSteps = 64;
  const double left = plot.right() + 8;
  for (int step = 0; step < kSteps; ++step) {
    canvas->Fill({left, plot.y + plot.height * (kSteps - 1 - step) / kSteps, kBar, plot.height / kSteps + 0.3},
                 ColorAt(SequentialPalette(), static_cast<double>(step) / (kSteps - 1)));
  }
  value.begin = plot.bottom();
  value.end = plot.y;
  for (const AxisTick& tick : AxisTicks(value.least, value.most, false, 5))
    canvas->Text(left + kBar + 3, value.At(tick.value) + kTextSize / 3, tick.text, kTextSize);
  if (is_named) {
    canvas->TextUpwards(left + kBar + kTickRoom, plot.y + plot.height / 2,
                        canvas->Fitted(panel.value.title, plot.height, kTextSize), kTextSize);
  }
}

void DrawPanel(const FigurePanel& panel, const Area& area, CairoCanvas* canvas) {
  canvas->Text(area.x, area.y + kPanelTitleSize, canvas->Fitted(panel.title, area.width, kPanelTitleSize),
               kPanelTitleSize);
  const double legend = Legend(panel, 0, 0, area.width, false, canvas);
  double left = 56;
  if (panel.kind == FigureKind::kHeat) {
    left = 30;
    for (const FigureSeries& row : panel.series) left = std::max(left, 22 + canvas->Width(row.name, kTextSize));
    left = std::min(left, area.width / 3);
  }
  Area plot{area.x + left, area.y + 2.0 * kPanelTitleSize, area.width - left - 8, 0};
  plot.height = area.bottom() - plot.y - legend - 4.2 * kTextSize;
  if (plot.height < 20 || plot.width < 20) {
    throw UsageError({.field = "size",
                      .problem = "the picture is too small for a panel of this figure",
                      .remedy = "give a larger size"});
  }
  switch (panel.kind) {
    case FigureKind::kLines:
    case FigureKind::kPoints:
      DrawXY(panel, plot, area, canvas);
      break;
    case FigureKind::kBars:
    case FigureKind::kStack:
      DrawBars(panel, plot, area, canvas);
      break;
    case FigureKind::kHeat:
      DrawHeat(panel, plot, area, canvas);
      break;
  }
  Legend(panel, area.x + 4, plot.bottom() + 4.4 * kTextSize, area.width - 4, true, canvas);
}

// Rows and columns of panels on a page.
struct Grid {
  size_t columns = 1, rows = 1;
};
constexpr double kPanelGap = 18;

Grid GridOf(const Figure& figure) {
  const size_t count = figure.panels.size();
  Grid grid;
  const size_t usual = count <= 3 ? count : count == 4 ? 2 : 3;
  grid.columns = std::max<size_t>(1, figure.columns > 0 ? std::min(count, static_cast<size_t>(figure.columns)) : usual);
  grid.rows = (count + grid.columns - 1) / grid.columns;
  return grid;
}

double PanelWidth(double whole, const Grid& grid) {
  return (whole - kPanelGap * static_cast<double>(grid.columns - 1)) / static_cast<double>(grid.columns);
}

// Above and below the panels.
constexpr double kHeadHeight = kTitleSize + 3 * kTextSize;
double CaptionHeight(const Figure& figure, double width, CairoCanvas* canvas) {
  return 1.35 * kTextSize * std::ceil(canvas->Width(figure.caption, kTextSize) / (0.93 * width)) + 4;
}

void DrawPanels(const Figure& figure, const Area& whole, CairoCanvas* canvas) {
  const size_t count = figure.panels.size();
  const auto [columns, rows] = GridOf(figure);
  const double panel_width = PanelWidth(whole.width, GridOf(figure));
  const double panel_height = (whole.height - kPanelGap * static_cast<double>(rows - 1)) / static_cast<double>(rows);
  for (size_t i = 0; i < count; ++i) {
    const size_t row = i / columns, column = i % columns;
    DrawPanel(figure.panels[i],
              {whole.x + (panel_width + kPanelGap) * static_cast<double>(column),
               whole.y + (panel_height + kPanelGap) * static_cast<double>(row), panel_width, panel_height},
              canvas);
  }
}

void Draw(const Figure& figure, double width, double height, const FigureLook& look, cairo_t* cairo) {
  CairoCanvas canvas(cairo, look.dark ? kDarkPage : kLightPage);
  canvas.Fill({0, 0, width, height}, canvas.inks().paper);
  if (!look.captions) {
    constexpr double kNarrowMargin = 6;
    return DrawPanels(figure, {kNarrowMargin, kNarrowMargin, width - 2 * kNarrowMargin, height - 2 * kNarrowMargin},
                      &canvas);
  }
  canvas.Text(kMargin, kMargin + kTitleSize, figure.title, kTitleSize);
  if (!figure.source.empty()) {
    canvas.Text(kMargin, kMargin + kTitleSize + 1.5 * kTextSize, "after " + figure.source, kTextSize, Anchor::kLeft,
                canvas.inks().quiet);
  }
  // The caption at the bottom, as high as its lines.
  const double caption_width = width - 2 * kMargin;
  const double caption_height = CaptionHeight(figure, caption_width, &canvas);
  canvas.Paragraph(kMargin, height - kMargin - caption_height + kTextSize + 4, caption_width, figure.caption,
                   kTextSize);
  DrawPanels(figure,
             {kMargin, kMargin + kHeadHeight, caption_width, height - 2 * kMargin - kHeadHeight - caption_height - 6},
             &canvas);
}

}  // namespace

int32_t FigureHeight(const Figure& figure, int32_t width) {
  constexpr double kLeast = 480, kPlotHeight = 190;
  double height = kLeast;
  MeasureText([&](cairo_t* cairo) {
    CairoCanvas canvas(cairo);
    const Grid grid = GridOf(figure);
    const double whole = width - 2 * kMargin;
    double legend = 0;
    for (const FigurePanel& panel : figure.panels)
      legend = std::max(legend, Legend(panel, 0, 0, PanelWidth(whole, grid), false, &canvas));
    const double of_panel = 2.0 * kPanelTitleSize + kPlotHeight + legend + 4.2 * kTextSize;
    height = std::max(height, 2 * kMargin + kHeadHeight + CaptionHeight(figure, whole, &canvas) + 6 +
                                  static_cast<double>(grid.rows) * (of_panel + kPanelGap) - kPanelGap);
  });
  return static_cast<int32_t>(std::ceil(height));
}

void DrawFigure(const Figure& figure, int32_t width, int32_t height, const std::string& path, const FigureLook& look) {
  PaintFile(path, figure.title, width, height, [&](cairo_t* cairo) { Draw(figure, width, height, look, cairo); });
}

void DrawFigure(const Figure& figure, int32_t width, int32_t height, const std::string& path) {
  DrawFigure(figure, width, height, path, {});
}

FigurePixels PaintFigure(const Figure& figure, int32_t width, int32_t height, double pixels_per_point,
                         const FigureLook& look) {
  FigurePixels pixels;
  pixels.rgb = PaintPixels(width, height, pixels_per_point, &pixels.width, &pixels.height,
                           [&](cairo_t* cairo) { Draw(figure, width, height, look, cairo); });
  return pixels;
}

}  // namespace headscope::analysis
