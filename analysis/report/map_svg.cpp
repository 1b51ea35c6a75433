// SPDX-License-Identifier: Apache-2.0
// A map as SVG: its scores are an image inside of it, everything around them is lines and text.
#include <png.h>

#include <cmath>
#include <fstream>

#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/errors.h"
#include "report/map_drawing.h"
#include "report/matrix_svg.h"
#include "report/svg_text.h"

namespace headscope::analysis {
namespace {

// RFC 4648.
std::string Base64(const std::vector<uint8_t>& bytes) {
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = bytes.size() - i;
    const uint32_t three = static_cast<uint32_t>(bytes[i]) << 16 |
                           (left > 1 ? static_cast<uint32_t>(bytes[i + 1]) << 8 : 0U) |
                           (left > 2 ? static_cast<uint32_t>(bytes[i + 2]) : 0U);
    text += kLetters[three >> 18 & 63];
    text += kLetters[three >> 12 & 63];
    text += left > 1 ? kLetters[three >> 6 & 63] : '=';
    text += left > 2 ? kLetters[three & 63] : '=';
  }
  return text;
}

std::vector<uint8_t> PngBytes(int32_t width, int32_t height, const std::vector<Rgb>& pixels) {
  std::vector<uint8_t> rgb;
  rgb.reserve(pixels.size() * 3);
  for (const Rgb& color : pixels) rgb.insert(rgb.end(), {color.red, color.green, color.blue});
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(width);
  header.height = static_cast<png_uint_32>(height);
  header.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::vector<uint8_t> bytes(size);
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0, rgb.data(), 0, nullptr) == 0)
    throw FailedError(std::string("the picture could not be made: ") + header.message);
  bytes.resize(size);
  return bytes;
}

std::string HundredthsOf(const char* name, double value) {
  return SvgAttribute(name, value, 100);
}

class SvgPainter {
 public:
  void Fill(const MapArea& area, Rgb color) { svg_ += "<rect" + Box(area) + " fill=\"" + HexColor(color) + "\"/>\n"; }
  void Line(double x0, double y0, double x1, double y1, Rgb color, double width) {
    svg_ += "<line" + HundredthsOf("x1", x0) + HundredthsOf("y1", y0) + HundredthsOf("x2", x1) +
            HundredthsOf("y2", y1) + " stroke=\"" + HexColor(color) + "\"" + HundredthsOf("stroke-width", width) +
            "/>\n";
  }
  void Text(double x, double y, const std::string& text, double size, MapAnchor anchor, Rgb color) {
    const char* const css = anchor == MapAnchor::kLeft ? "start" : anchor == MapAnchor::kCentre ? "middle" : "end";
    svg_ += "<text" + HundredthsOf("x", x) + HundredthsOf("y", y) + Letters(text, size, css, color);
  }
  void TextUpwards(double x, double middle, const std::string& text, double size, Rgb color) {
    svg_ += "<text transform=\"translate(" + ShortestNumber(x) + "," + ShortestNumber(middle) + ") rotate(-90)\"" +
            Letters(text, size, "middle", color);
  }
  void Image(const MapArea& area, int32_t width, int32_t height, const std::vector<Rgb>& pixels) {
    svg_ += "<image" + Box(area) +
            " preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64," +
            Base64(PngBytes(width, height, pixels)) + "\"/>\n";
  }

  const std::string& svg() const { return svg_; }

 private:
  static std::string Box(const MapArea& area) {
    return HundredthsOf("x", area.x) + HundredthsOf("y", area.y) + HundredthsOf("width", area.width) +
           HundredthsOf("height", area.height);
  }
  static std::string Letters(const std::string& text, double size, const char* anchor, Rgb color) {
    return HundredthsOf("font-size", size) + " text-anchor=\"" + anchor + "\" fill=\"" + HexColor(color) + "\">" +
           EscapeHtml(Printable(text)) + "</text>\n";
  }

  std::string svg_;
};

}  // namespace

void PaintSvg(const HeadMap& map, int32_t width, int32_t height, const std::string& path) {
  SvgPainter painter;
  const MapPage page = LayOutMapPage(map, width, height);
  DrawMapOn(painter, map, page, width, height);
  const std::string page_width = ShortestNumber(page.width), page_height = ShortestNumber(page.height);
  std::ofstream file(path, std::ios::binary);
  file << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << page_width << "pt\" height=\"" << page_height
       << "pt\" viewBox=\"0 0 " << page_width << ' ' << page_height
       << "\" font-family=\"DejaVu Sans, Arial, sans-serif\">\n<title>" << EscapeHtml(Printable(map.caption.title))
       << "</title>\n"
       << painter.svg() << "</svg>\n";
  file.close();
  if (!file) throw FailedError({.file = path, .problem = "the picture could not be written"});
}

}  // namespace headscope::analysis
