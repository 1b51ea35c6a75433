// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/matrix_painter.h"

#include <algorithm>
#include <cmath>

#include "analysis/types/number_text.h"

namespace headscope::analysis {
namespace {

using Text = MatrixSurface::Text;
using Anchor = MatrixSurface::Anchor;

constexpr double kLegendGap = 14, kBarHeight = 10;
constexpr double kSwatch = 12, kSwatchPitch = 18, kEntryGap = 12;
constexpr int kMostBarSteps = 128;

// Labels that would touch are thinned out.
int Stride(double needed, double pitch) {
  return std::max(1, static_cast<int>(std::ceil(needed / pitch)));
}

void PaintLabels(const MatrixLayout& layout, MatrixSurface* surface) {
  const double height = surface->Height(Text::kLabel);
  const Box bounds = layout.Bounds(), first = layout.CellBox({0, 0});
  const int row_stride = Stride(height * 0.9, first.height + MatrixLayout::kGap);
  for (int row = 0; row < layout.num_rows(); row += row_stride) {
    surface->Write(Text::kLabel, bounds.x - 6, layout.CellBox({row, 0}).centre_y(), Anchor::kRight,
                   std::to_string(layout.layers()[static_cast<size_t>(row)]));
  }
  const double numbers_y = bounds.y - 3 - height / 2;
  const double widest = surface->Width(Text::kLabel, std::to_string(layout.heads().back())) + 4;
  const int column_stride = Stride(widest, first.width + MatrixLayout::kGap);
  for (int column = 0; column < layout.num_columns(); column += column_stride) {
    surface->Write(Text::kLabel, layout.CellBox({0, column}).centre_x(), numbers_y, Anchor::kCentre,
                   std::to_string(layout.heads()[static_cast<size_t>(column)]));
  }
  surface->Write(Text::kLabel, bounds.x - 6, numbers_y, Anchor::kRight, "head");
  surface->WriteUpwards(bounds.x - LabelMargins(*surface).left + height / 2, bounds.centre_y(), "layer");
  // A bracket over the query heads that share a KV head.
  const double y = bounds.y - height - 6;
  for (const MatrixLayout::Group& group : layout.groups()) {
    const double left = layout.CellBox({0, group.first}).x, right = layout.CellBox({0, group.last}).right();
    surface->Line(left, y, right, y);
    for (const std::string& label : {"KV " + std::to_string(group.kv_head), std::to_string(group.kv_head)}) {
      if (surface->Width(Text::kLabel, label) >= right - left) continue;
      surface->Write(Text::kLabel, (left + right) / 2, y - 1 - height / 2, Anchor::kCentre, label);
      break;
    }
  }
}

void PaintCell(const MatrixCell& cell, const Box& box, MatrixSurface* surface) {
  if (!cell.color) return surface->Hatch(box);
  surface->Fill(box, *cell.color);
  if (cell.text.empty() || surface->Width(Text::kCell, cell.text) + 6 > box.width ||
      surface->Height(Text::kCell) > box.height)
    return;
  surface->Write(Text::kCell, box.centre_x(), box.centre_y(), Anchor::kCentre, cell.text, InkOn(*cell.color));
}

void PaintBar(const MatrixPicture& picture, const Box& area, MatrixSurface* surface) {
  const MetricScale& scale = *picture.scale;
  const double line = surface->Height(Text::kLegend);
  double y = area.y;
  if (!picture.title.empty()) {
    surface->Write(Text::kLegend, area.x, y + line / 2, Anchor::kLeft, picture.title);
    y += line + 3;
  }
  // On whole pixels, so that no seam shows between two steps.
  const int steps = std::clamp(static_cast<int>(area.width), 1, kMostBarSteps);
  const auto edge = [&](int step) { return std::round(area.x + area.width * step / steps); };
  for (int step = 0; step < steps; ++step) {
    surface->Fill({edge(step), y, edge(step + 1) - edge(step), kBarHeight},
                  scale.ColorAtPlace(steps == 1 ? 0.5 : static_cast<double>(step) / (steps - 1)));
  }
  y += kBarHeight + 2 + line / 2;
  surface->Write(Text::kLegend, area.x, y, Anchor::kLeft, MetricText(scale.least()));
  surface->Write(Text::kLegend, area.centre_x(), y, Anchor::kCentre, MetricText((scale.least() + scale.most()) / 2));
  surface->Write(Text::kLegend, area.right(), y, Anchor::kRight, MetricText(scale.most()));
}

void PaintClasses(const Box& area, double right, MatrixSurface* surface) {
  const double line = surface->Height(Text::kLegend);
  double x = area.x, y = area.y;
  for (const HeadClassInfo& one : kHeadClasses) {
    if (one.head_class == HeadClass::kUnknown) continue;
    const std::string name = one.name;
    const double width = kSwatchPitch + surface->Width(Text::kLegend, name);
    if (x > area.x && x + width > right) {
      x = area.x;
      y += line + 3;
    }
    surface->Fill({x, y + line / 2 - kSwatch / 2, kSwatch, kSwatch}, one.color);
    surface->Write(Text::kLegend, x + kSwatchPitch, y + line / 2, Anchor::kLeft, name);
    x += width + kEntryGap;
  }
}

}  // namespace

MatrixMargins LabelMargins(const MatrixSurface& surface) {
  const double height = surface.Height(Text::kLabel);
  return {surface.Width(Text::kLabel, "head") + height + 8, 2 * height + 10};
}

double LegendHeight(const MatrixSurface& surface, const MatrixPicture& picture) {
  const double line = surface.Height(Text::kLegend);
  if (!picture.scale) return kLegendGap + 3 * (line + 3);
  return kLegendGap + kBarHeight + line + 5 + (picture.title.empty() ? 0 : line + 3);
}

MatrixCell CellOfMetric(const MetricScale& scale, double value) {
  return {scale.Color(value), std::isnan(value) ? std::string() : FormatNumber("%.2f", value)};
}

void PaintMatrix(const MatrixPicture& picture, double right, MatrixSurface* surface) {
  const MatrixLayout& layout = picture.layout;
  if (layout.num_rows() == 0) return;
  PaintLabels(layout, surface);
  for (int row = 0; row < layout.num_rows(); ++row) {
    for (int column = 0; column < layout.num_columns(); ++column) {
      const auto head = layout.HeadOf({row, column});
      if (!head) continue;
      const Box box = layout.CellBox({row, column});
      surface->BeginCell(*head);
      PaintCell(picture.cell(*head), box, surface);
      surface->EndCell(*head, box);
    }
  }
  const Box bounds = layout.Bounds();
  const Box area{bounds.x, bounds.bottom() + kLegendGap, std::max(bounds.width, kLeastMatrixWidth),
                 LegendHeight(*surface, picture) - kLegendGap};
  if (picture.scale) {
    PaintBar(picture, area, surface);
  } else {
    PaintClasses(area, right, surface);
  }
}

}  // namespace headscope::analysis
