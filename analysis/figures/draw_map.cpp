// SPDX-License-Identifier: Apache-2.0
// A map as PDF or PNG, by cairo: real letters, which a PDF takes with it.
#include "figures/cairo_canvas.h"
#include "report/map_drawing.h"

namespace headscope::analysis {
namespace {

Area ToCairo(const MapArea& area) {
  return {area.x, area.y, area.width, area.height};
}

class CairoPainter {
 public:
  explicit CairoPainter(cairo_t* cairo) : canvas_(cairo) {}
  void Fill(const MapArea& area, Rgb color) { canvas_.Fill(ToCairo(area), color); }
  void Line(double x0, double y0, double x1, double y1, Rgb color, double width) {
    canvas_.Line(x0, y0, x1, y1, color, width);
  }
  void Text(double x, double y, const std::string& text, double size, MapAnchor anchor, Rgb color) {
    canvas_.Text(x, y, text, size,
                 anchor == MapAnchor::kLeft     ? Anchor::kLeft
                 : anchor == MapAnchor::kCentre ? Anchor::kCentre
                                                : Anchor::kRight,
                 color);
  }
  void TextUpwards(double x, double middle, const std::string& text, double size, Rgb color) {
    canvas_.TextUpwards(x, middle, text, size, color);
  }
  void Image(const MapArea& area, int32_t width, int32_t height, const std::vector<Rgb>& pixels) {
    canvas_.Image(ToCairo(area), width, height, pixels);
  }

 private:
  CairoCanvas canvas_;
};

}  // namespace

void PaintWithCairo(const HeadMap& map, int32_t width, int32_t height, const std::string& path) {
  const MapPage page = LayOutMapPage(map, width, height);
  PaintFile(path, map.caption.title, page.width, page.height, [&](cairo_t* cairo) {
    CairoPainter painter(cairo);
    DrawMapOn(painter, map, page, width, height);
  });
}

}  // namespace headscope::analysis
