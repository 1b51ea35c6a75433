// SPDX-License-Identifier: Apache-2.0
// A map as an image of pixels: title, axes in tokens, colour bar.
#include <algorithm>
#include <cmath>

#include "report/drawing.h"
#include "report/head_map.h"

namespace headscope::analysis {
namespace {

class PixelPainter {
 public:
  PixelPainter(const HeadMap& map, int32_t width, int32_t height)
      : map_(map),
        width_(width),
        height_(height),
        scale_(width >= 600 ? 2 : 1),
        left_(Drawing::TextHeight(scale_) + Drawing::TextWidth("131,072", scale_) + 5 * kGap * scale_),
        top_(Drawing::TextHeight(scale_) + 2 * kGap * scale_),
        drawing_(left_ + width + (kBarWidth + 5 * kGap) * scale_ +
                     Drawing::TextWidth(map.swatches.empty() ? "+10^-10" : "second alone", scale_),
                 top_ + height + 2 * Drawing::TextHeight(scale_) + 5 * kGap * scale_, map.ground.paper) {}

  ImageRgb Draw() {
    for (int32_t y = 0; y < height_; ++y) {
      for (int32_t x = 0; x < width_; ++x) drawing_.SetPixel(left_ + x, top_ + y, map_.PixelAt(x, y, width_, height_));
    }
    DrawAxes();
    DrawBar();
    drawing_.Text(left_, kGap * scale_, map_.title, FittingScale(), map_.ground.ink);
    ImageRgb image = drawing_.Take();
    image.device = map_.device;
    return image;
  }

 private:
  static constexpr int32_t kGap = 4;
  static constexpr int32_t kBarWidth = 10;

  // A narrow picture has a small title rather than a cut one.
  int32_t FittingScale() const { return Drawing::TextWidth(map_.title, scale_) <= width_ + left_ / 2 ? scale_ : 1; }

  void DrawAxes() {
    const Rgb ink = map_.ground.ink;
    const int32_t bottom = top_ + height_;
    const int32_t text_height = Drawing::TextHeight(scale_);
    Frame(left_, top_, width_, height_);
    for (const MapMark& mark : map_.ColumnMarks(std::max(2, width_ / (Drawing::TextWidth("131,072", scale_) + 16)))) {
      const int32_t x = left_ + static_cast<int32_t>(std::lround(mark.place * width_));
      drawing_.FillRectangle(x, bottom, scale_, kGap * scale_, ink);
      drawing_.Text(x - Drawing::TextWidth(mark.label, scale_) / 2, bottom + (kGap + 2) * scale_, mark.label, scale_,
                    ink);
    }
    drawing_.Text(left_ + (width_ - Drawing::TextWidth(kColumnAxisTitle, scale_)) / 2,
                  bottom + text_height + (2 * kGap + 2) * scale_, kColumnAxisTitle, scale_, ink);
    for (const MapMark& mark : map_.RowMarks(std::max(2, height_ / (4 * text_height)))) {
      const int32_t y = top_ + static_cast<int32_t>(std::lround(mark.place * height_));
      drawing_.FillRectangle(left_ - kGap * scale_, y, kGap * scale_, scale_, ink);
      drawing_.Text(left_ - (kGap + 2) * scale_ - Drawing::TextWidth(mark.label, scale_), y - text_height / 2,
                    mark.label, scale_, ink);
    }
    drawing_.TextUpwards(kGap * scale_, top_ + (height_ + Drawing::TextWidth(kRowAxisTitle, scale_)) / 2, kRowAxisTitle,
                         scale_, ink);
  }

  void DrawBar() {
    const Rgb ink = map_.ground.ink;
    const int32_t x = left_ + width_ + 3 * kGap * scale_;
    const int32_t width = kBarWidth * scale_;
    const int32_t text_height = Drawing::TextHeight(scale_);
    for (size_t i = 0; i < map_.swatches.size(); ++i) {
      const int32_t y = top_ + static_cast<int32_t>(i) * 2 * text_height;
      drawing_.FillRectangle(x, y, width, text_height, map_.swatches[i].color);
      drawing_.Text(x + width + kGap * scale_, y, map_.swatches[i].label, scale_, ink);
    }
    if (map_.palette == nullptr) return;
    for (int32_t y = 0; y < height_; ++y)
      drawing_.FillRectangle(x, top_ + y, width, 1, ColorAt(*map_.palette, 1 - (y + 0.5) / height_));
    Frame(x, top_, width, height_);
    for (const MapMark& mark : map_.bar_marks) {
      const int32_t y = top_ + static_cast<int32_t>(std::lround((1 - mark.place) * height_));
      drawing_.FillRectangle(x + width, y, kGap * scale_ / 2, scale_, ink);
      drawing_.Text(x + width + kGap * scale_, y - text_height / 2, mark.label, scale_, ink);
    }
  }

  void Frame(int32_t x, int32_t y, int32_t width, int32_t height) {
    drawing_.FillRectangle(x - 1, y - 1, width + 2, 1, map_.ground.ink);
    drawing_.FillRectangle(x - 1, y + height, width + 2, 1, map_.ground.ink);
    drawing_.FillRectangle(x - 1, y - 1, 1, height + 2, map_.ground.ink);
    drawing_.FillRectangle(x + width, y - 1, 1, height + 2, map_.ground.ink);
  }

  const HeadMap& map_;
  const int32_t width_, height_, scale_, left_, top_;
  Drawing drawing_;
};

}  // namespace

ImageRgb PaintOnPixels(const HeadMap& map, int32_t width, int32_t height) {
  return PixelPainter(map, width, height).Draw();
}

}  // namespace headscope::analysis
