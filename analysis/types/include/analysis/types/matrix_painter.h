// SPDX-License-Identifier: Apache-2.0
// The one painter of the layer x head matrix: the window and the report give it something to paint on.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "analysis/types/color_map.h"
#include "analysis/types/matrix_layout.h"
#include "analysis/types/metric_scale.h"

namespace headscope::analysis {

// What is painted on: rectangles, lines and text in logical pixels.
class MatrixSurface {
 public:
  enum class Text { kLabel, kCell, kLegend };  // kinds of writing, each with a size
  enum class Anchor { kLeft, kCentre, kRight };

  virtual ~MatrixSurface() = default;
  virtual void Fill(const Box& box, Rgb color) = 0;
  // The look of a cell whose value is not known.
  virtual void Hatch(const Box& box) = 0;
  // In the ink of labels.
  virtual void Line(double x0, double y0, double x1, double y1) = 0;
  // One line of text whose middle is at `y` and whose anchor is at `x`. Without `ink` in that of its kind.
  virtual void Write(Text kind, double x, double y, Anchor anchor, const std::string& text,
                     std::optional<Rgb> ink = {}) = 0;
  // A label that runs upwards and has its middle there.
  virtual void WriteUpwards(double x, double y, const std::string& text) = 0;
  virtual double Width(Text kind, const std::string& text) const = 0;
  virtual double Height(Text kind) const = 0;  // of a line
  // Round everything of a cell: what belongs to one surface alone, such as a tooltip.
  virtual void BeginCell(HeadId) {}
  virtual void EndCell(HeadId, const Box&) {}
};

struct MatrixCell {
  std::optional<Rgb> color;  // none: hatched
  std::string text;          // written where it fits
};

struct MatrixPicture {
  MatrixLayout layout;
  std::function<MatrixCell(HeadId)> cell;
  // The legend: a bar of the scale, or without one the classes.
  std::optional<MetricScale> scale;
  std::string title;  // over the bar; may be empty
};

// What the legend needs at least; narrower matrices are left of it.
inline constexpr double kLeastMatrixWidth = 190;

// Room that labels take on the left and on top of the cells.
struct MatrixMargins {
  double left = 0, top = 0;
};
MatrixMargins LabelMargins(const MatrixSurface& surface);
// What the legend takes below the cells, the gap between them included.
double LegendHeight(const MatrixSurface& surface, const MatrixPicture& picture);
// A head's cell under a metric: its colour, and its value as text.
MatrixCell CellOfMetric(const MetricScale& scale, double value);

// Labels, brackets over KV heads, cells and legend. `right` is where the legend's entries have to end.
void PaintMatrix(const MatrixPicture& picture, double right, MatrixSurface* surface);

}  // namespace headscope::analysis
