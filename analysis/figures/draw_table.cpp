// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analysis/table_drawing.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "figures/cairo_canvas.h"

namespace headscope::analysis {
namespace {

constexpr double kCellTextSize = 9, kTableTitleSize = 13, kTableMargin = 14, kColumnGap = 16, kLine = 14;
constexpr double kMostSide = 16000;

struct Layout {
  std::vector<double> left, width;  // of the columns
  double top = 0, page_width = 0, page_height = 0;
};

Layout LayOut(const TableText& table, CairoCanvas* canvas) {
  Layout layout;
  double x = kTableMargin;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    double width = canvas->Width(table.columns[column].title, kCellTextSize);
    for (const std::vector<std::string>& row : table.rows)
      width = std::max(width, canvas->Width(row[column], kCellTextSize));
    layout.left.push_back(x);
    layout.width.push_back(width);
    x += width + kColumnGap;
  }
  layout.top = kTableMargin + (table.title.empty() ? 0 : kTableTitleSize + 8);
  layout.page_width =
      std::max(x - kColumnGap, kTableMargin + canvas->Width(table.title, kTableTitleSize)) + kTableMargin;
  layout.page_height = layout.top + kLine * static_cast<double>(table.rows.size() + 1) + 6 + kTableMargin;
  return layout;
}

void DrawTable(const TableText& table, const Layout& layout, CairoCanvas* canvas) {
  canvas->Fill({0, 0, layout.page_width, layout.page_height}, canvas->inks().paper);
  if (!table.title.empty()) canvas->Text(kTableMargin, kTableMargin + kTableTitleSize, table.title, kTableTitleSize);
  const auto put = [&](size_t column, double baseline, const std::string& text, Rgb ink) {
    const bool right = table.columns[column].right;
    canvas->Text(layout.left[column] + (right ? layout.width[column] : 0), baseline, text, kCellTextSize,
                 right ? Anchor::kRight : Anchor::kLeft, ink);
  };
  double baseline = layout.top + kCellTextSize;
  for (size_t column = 0; column < table.columns.size(); ++column)
    put(column, baseline, table.columns[column].title, canvas->inks().quiet);
  const double rule = baseline + 4;
  canvas->Line(kTableMargin, rule, layout.page_width - kTableMargin, rule, canvas->inks().ink, 0.6);
  baseline += 4;
  for (const std::vector<std::string>& row : table.rows) {
    baseline += kLine;
    for (size_t column = 0; column < row.size(); ++column) put(column, baseline, row[column], canvas->inks().ink);
  }
}

}  // namespace

void DrawTable(const TableText& table, const std::string& path, const FigureLook& look, int32_t png_width) {
  const PageInks& inks = look.dark ? kDarkPage : kLightPage;
  // Letters are measured on a page of one point, which is thrown away.
  Layout layout;
  int32_t wide = 0, high = 0;
  PaintPixels(1, 1, 1, &wide, &high, [&](cairo_t* cairo) {
    CairoCanvas canvas(cairo, inks);
    layout = LayOut(table, &canvas);
  });
  if (std::max(layout.page_width, layout.page_height) > kMostSide) {
    throw UsageError({.field = "rows",
                      .value = std::to_string(table.rows.size()),
                      .problem = "the table is too large for a picture",
                      .remedy = "choose fewer heads, or write .csv"});
  }
  const double scale = png_width > 0 ? png_width / layout.page_width : kPixelsPerPoint;
  if (FindFileFormat(path) == FileFormat::kPng && scale * layout.page_height > 2 * kMostSide) {
    throw UsageError({.field = "rows",
                      .value = std::to_string(table.rows.size()),
                      .problem = "the table is too high for a picture " + std::to_string(png_width) + " pixels wide",
                      .remedy = "choose a smaller width or fewer heads, or write .csv"});
  }
  PaintFile(
      path, table.title, layout.page_width, layout.page_height,
      [&](cairo_t* cairo) {
        CairoCanvas canvas(cairo, inks);
        DrawTable(table, layout, &canvas);
      },
      scale);
}

}  // namespace headscope::analysis
