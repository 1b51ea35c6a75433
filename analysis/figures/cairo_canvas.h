// SPDX-License-Identifier: Apache-2.0
// What paints figures and maps into files: cairo. Letters stay letters: in PDF they are cairo's, in SVG our own text.
#pragma once

#include <cairo.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/types/color_map.h"
#include "analysis/types/printable.h"
#include "base/utf8.h"

namespace headscope::analysis {

// What is drawn on, and what is no value of it.
struct PageInks {
  Rgb paper{255, 255, 255}, ink{30, 30, 36};
  Rgb quiet{90, 90, 100};   // what is written and less to the point
  Rgb grid{225, 225, 230};  // lines behind the values
  Rgb none{240, 240, 240};  // where there is no value
};
inline constexpr PageInks kLightPage{};
inline constexpr PageInks kDarkPage{{23, 23, 23}, {214, 214, 214}, {160, 160, 166}, {58, 58, 62}, {44, 44, 48}};

struct Area {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

enum class Anchor { kLeft, kCentre, kRight };

class CairoCanvas {
 public:
  explicit CairoCanvas(cairo_t* cairo, const PageInks& inks = kLightPage);

  const PageInks& inks() const { return inks_; }
  void Ink(Rgb color) { cairo_set_source_rgb(cairo_, color.red / 255.0, color.green / 255.0, color.blue / 255.0); }
  void Fill(const Area& area, Rgb color) {
    Ink(color);
    cairo_rectangle(cairo_, area.x, area.y, area.width, area.height);
    cairo_fill(cairo_);
  }
  // Lengths of a line's ink and gaps in turn, another pattern for every number: 0 unbroken, 1 dashes, 2 dots, and from
  // 3 on a dash and one dot more each time.
  static std::vector<double> Dashes(size_t number) {
    if (number == 0) return {};
    if (number == 1) return {4, 2};
    if (number == 2) return {1.2, 1.6};
    std::vector<double> lengths = {6, 1.8};
    for (size_t dot = 2; dot < number; ++dot) lengths.insert(lengths.end(), {1.2, 1.8});
    return lengths;
  }
  struct Position {
    double x, y;
  };
  // Through all of `points`, along which the dashes run on: each stretch may be shorter than their pattern.
  void Polyline(const std::vector<Position>& points, Rgb color, double width = 0.8, size_t dashes = 0) {
    Ink(color);
    const std::vector<double> lengths = Dashes(dashes);
    cairo_set_dash(cairo_, lengths.data(), static_cast<int>(lengths.size()), 0);
    cairo_set_line_width(cairo_, width);
    cairo_set_line_join(cairo_, CAIRO_LINE_JOIN_ROUND);  // a steep peak ends at its point
    cairo_new_path(cairo_);                              // a text before leaves a point behind
    for (const Position& point : points) cairo_line_to(cairo_, point.x, point.y);
    cairo_stroke(cairo_);
    cairo_set_dash(cairo_, nullptr, 0, 0);
  }
  void Line(double x0, double y0, double x1, double y1, Rgb color, double width = 0.8, size_t dashes = 0) {
    Polyline({{x0, y0}, {x1, y1}}, color, width, dashes);
  }
  // shape: a circle, or another of kShapes, half of which are outlines.
  static constexpr size_t kShapes = 8;
  void Dot(double x, double y, double radius, Rgb color, size_t shape = 0) {
    cairo_set_source_rgba(cairo_, color.red / 255.0, color.green / 255.0, color.blue / 255.0, 0.65);
    const double side = 1.7 * radius;
    switch (shape % (kShapes / 2)) {
      case 1:  // a square
        cairo_rectangle(cairo_, x - side / 2, y - side / 2, side, side);
        break;
      case 2:  // a triangle
        cairo_move_to(cairo_, x, y - 1.3 * radius);
        cairo_line_to(cairo_, x + 1.2 * radius, y + 0.8 * radius);
        cairo_line_to(cairo_, x - 1.2 * radius, y + 0.8 * radius);
        break;
      case 3:  // a diamond
        cairo_move_to(cairo_, x, y - 1.4 * radius);
        cairo_line_to(cairo_, x + 1.4 * radius, y);
        cairo_line_to(cairo_, x, y + 1.4 * radius);
        cairo_line_to(cairo_, x - 1.4 * radius, y);
        break;
      default:
        cairo_new_sub_path(cairo_);
        cairo_arc(cairo_, x, y, radius, 0, 2 * 3.14159265358979);
        break;
    }
    if (shape % kShapes < kShapes / 2) return cairo_fill(cairo_);
    cairo_close_path(cairo_);
    cairo_set_line_width(cairo_, 0.7);
    cairo_stroke(cairo_);
  }
  double Width(const std::string& text, double size) {
    cairo_set_font_size(cairo_, size);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_, Printable(text).c_str(), &extents);
    return extents.x_advance;
  }
  // y: the baseline. Without a colour in the page's ink.
  void Text(double x, double y, const std::string& text, double size, Anchor anchor = Anchor::kLeft,
            std::optional<Rgb> color = {}) {
    const Rgb ink = color.value_or(inks_.ink);
    if (AsSvgText(x, y, text, size, anchor, ink, /*upwards=*/false)) return;
    const double width = Width(text, size);
    Ink(ink);
    cairo_move_to(cairo_, anchor == Anchor::kLeft ? x : anchor == Anchor::kCentre ? x - width / 2 : x - width, y);
    cairo_show_text(cairo_, Printable(text).c_str());
  }
  void TextUpwards(double x, double middle, const std::string& text, double size, std::optional<Rgb> color = {}) {
    const Rgb ink = color.value_or(inks_.ink);
    if (AsSvgText(x, middle, text, size, Anchor::kCentre, ink, /*upwards=*/true)) return;
    const double width = Width(text, size);
    Ink(ink);
    cairo_save(cairo_);
    cairo_translate(cairo_, x, middle + width / 2);
    cairo_rotate(cairo_, -3.14159265358979 / 2);
    cairo_move_to(cairo_, 0, 0);
    cairo_show_text(cairo_, Printable(text).c_str());
    cairo_restore(cairo_);
  }
  // Lines of at most `width`; returns the baseline below the last.
  double Paragraph(double x, double y, double width, const std::string& text, double size) {
    std::string line;
    const auto put = [&] {
      if (line.empty()) return;
      Text(x, y, line, size);
      y += 1.35 * size;
      line.clear();
    };
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(' ', begin), text.size());
      const std::string word = text.substr(begin, end - begin);
      std::string longer = line;
      if (!line.empty()) longer.append(" ");
      longer.append(word);
      if (!line.empty() && Width(longer, size) > width) {
        put();
        line = word;
      } else {
        line = std::move(longer);
      }
      begin = end + 1;
    }
    put();
    return y;
  }
  // The text, or as much of it as `width` has room for.
  std::string Fitted(const std::string& text, double width, double size) {
    if (Width(text, size) <= width) return text;
    std::string shorter = text;
    while (!shorter.empty() && Width(shorter + "..", size) > width) {
      do shorter.pop_back();
      while (!shorter.empty() && IsInsideCharacter(shorter.back()));
    }
    return shorter + "..";
  }
  void Clip(const Area& area) {
    cairo_save(cairo_);
    cairo_rectangle(cairo_, area.x, area.y, area.width, area.height);
    cairo_clip(cairo_);
  }
  void Unclip() { cairo_restore(cairo_); }
  // Pixels that stay pixels: [height, width].
  void Image(const Area& area, int32_t width, int32_t height, const std::vector<Rgb>& pixels);

 private:
  // Of PaintFile's .svg: the text as text, for cairo would draw the outlines of its letters. False elsewhere.
  bool AsSvgText(double x, double y, const std::string& text, double size, Anchor anchor, Rgb color, bool upwards);

  cairo_t* cairo_;
  const PageInks& inks_;
};

// Calls measure with a canvas that is no file's, for the width of letters.
void MeasureText(const std::function<void(cairo_t*)>& measure);

// Writes what `paint` draws, `width` x `height` points large, as .svg, .pdf or .png by the path's extension. Throws
// FailedError naming the file. `pixels_per_point`: of a PNG.
inline constexpr double kPixelsPerPoint = 2;
void PaintFile(const std::string& path, const std::string& title, double width, double height,
               const std::function<void(cairo_t*)>& paint, double pixels_per_point = kPixelsPerPoint);
// The same as pixels, [height, width] of *pixels_high and *pixels_wide, 0xffRRGGBB. Throws FailedError.
std::vector<uint32_t> PaintPixels(double width, double height, double pixels_per_point, int32_t* pixels_wide,
                                  int32_t* pixels_high, const std::function<void(cairo_t*)>& paint);

}  // namespace headscope::analysis
