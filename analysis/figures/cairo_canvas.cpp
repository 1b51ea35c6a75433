// SPDX-License-Identifier: Apache-2.0
#include "figures/cairo_canvas.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "base/errors.h"
#include "base/file_format.h"
#include "report/matrix_svg.h"
#include "report/svg_text.h"

namespace headscope::analysis {
namespace {

struct DestroySurface {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
};
struct DestroyContext {
  void operator()(cairo_t* cairo) const { cairo_destroy(cairo); }
};
using Surface = std::unique_ptr<cairo_surface_t, DestroySurface>;

void Check(cairo_status_t status, const std::string& path) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  // cairo says that writing failed; why, the system says: a full disk, no such folder.
  const bool of_file = status == CAIRO_STATUS_WRITE_ERROR && errno != 0;
  throw FailedError({.file = path,
                     .problem = std::string("the picture could not be written: ") +
                                (of_file ? std::strerror(errno) : cairo_status_to_string(status))});
}

// Where an SVG surface keeps the texts that are written behind all that cairo draws.
constexpr cairo_user_data_key_t kSvgTexts{};

cairo_status_t AppendToSvg(void* document, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(document)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

// cairo's document with its title and texts, in a file.
void WriteSvgFile(std::string document, const std::string& title, const std::string& texts, const std::string& path) {
  const std::string named = "<title>" + EscapeHtml(Printable(title)) + "</title>\n";
  document.insert(document.find('\n', document.find("<svg")) + 1, named);
  document.insert(document.rfind("</svg>"), texts);
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << document;
  file.close();
  if (!file) Check(CAIRO_STATUS_WRITE_ERROR, path);
}

}  // namespace

CairoCanvas::CairoCanvas(cairo_t* cairo, const PageInks& inks) : cairo_(cairo), inks_(inks) {
  cairo_select_font_face(cairo_, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  // cairo keeps a face as it was first asked for: behind a PDF, whose letters are not hinted, those of a PNG were not,
  // either, and one picture was two.
  const std::unique_ptr<cairo_font_options_t, decltype(&cairo_font_options_destroy)> options(
      cairo_font_options_create(), &cairo_font_options_destroy);
  cairo_font_options_set_antialias(options.get(), CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_style(options.get(), CAIRO_HINT_STYLE_SLIGHT);
  cairo_set_font_options(cairo_, options.get());
}

bool CairoCanvas::AsSvgText(double x, double y, const std::string& text, double size, Anchor anchor, Rgb color,
                            bool upwards) {
  auto* const texts = static_cast<std::string*>(cairo_surface_get_user_data(cairo_get_target(cairo_), &kSvgTexts));
  if (texts == nullptr) return false;
  constexpr double kParts = 100;  // of a point
  *texts += "<text" + SvgAttribute("x", x, kParts) + SvgAttribute("y", y, kParts);
  if (upwards) *texts += " transform=\"rotate(-90," + ShortestNumber(x) + "," + ShortestNumber(y) + ")\"";
  if (anchor != Anchor::kLeft) *texts += anchor == Anchor::kCentre ? " text-anchor=\"middle\"" : " text-anchor=\"end\"";
  *texts += " font-family=\"DejaVu Sans, Arial, sans-serif\"" + SvgAttribute("font-size", size, kParts) + " fill=\"" +
            HexColor(color) + "\">" + EscapeHtml(Printable(text)) + "</text>\n";
  return true;
}

void CairoCanvas::Image(const Area& area, int32_t width, int32_t height, const std::vector<Rgb>& pixels) {
  const Surface image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height));
  if (cairo_surface_status(image.get()) != CAIRO_STATUS_SUCCESS) return;  // the context's status says so
  unsigned char* const bytes = cairo_image_surface_get_data(image.get());
  const int stride = cairo_image_surface_get_stride(image.get());
  for (int32_t y = 0; y < height; ++y) {
    auto* const line = reinterpret_cast<uint32_t*>(bytes + static_cast<ptrdiff_t>(y) * stride);
    for (int32_t x = 0; x < width; ++x) {
      const Rgb& color = pixels[static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)];
      line[x] = static_cast<uint32_t>(color.red) << 16 | static_cast<uint32_t>(color.green) << 8 | color.blue;
    }
  }
  cairo_surface_mark_dirty(image.get());
  cairo_save(cairo_);
  cairo_translate(cairo_, area.x, area.y);
  cairo_scale(cairo_, area.width / width, area.height / height);
  cairo_set_source_surface(cairo_, image.get(), 0, 0);
  cairo_pattern_set_filter(cairo_get_source(cairo_), CAIRO_FILTER_NEAREST);
  cairo_paint(cairo_);
  cairo_restore(cairo_);
}

void MeasureText(const std::function<void(cairo_t*)>& measure) {
  const Surface surface(cairo_recording_surface_create(CAIRO_CONTENT_COLOR, nullptr));
  const std::unique_ptr<cairo_t, DestroyContext> cairo(cairo_create(surface.get()));
  measure(cairo.get());
  Check(cairo_status(cairo.get()), "a figure");
}

void PaintFile(const std::string& path, const std::string& title, double width, double height,
               const std::function<void(cairo_t*)>& paint, double pixels_per_point) {
  errno = 0;
  const std::optional<FileFormat> format = FindFileFormat(path);
  const bool is_png = format == FileFormat::kPng;
  std::string document, texts;  // of an SVG
  Surface surface;
  if (is_png) {
    surface.reset(cairo_image_surface_create(CAIRO_FORMAT_RGB24,
                                             static_cast<int>(std::lround(pixels_per_point * width)),
                                             static_cast<int>(std::lround(pixels_per_point * height))));
    cairo_surface_set_device_scale(surface.get(), pixels_per_point, pixels_per_point);
  } else if (format == FileFormat::kPdf) {
    surface.reset(cairo_pdf_surface_create(path.c_str(), width, height));
    cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_TITLE, Printable(title).c_str());
  } else {
    surface.reset(cairo_svg_surface_create_for_stream(&AppendToSvg, &document, width, height));
    Check(cairo_surface_set_user_data(surface.get(), &kSvgTexts, &texts, nullptr), path);
  }
  Check(cairo_surface_status(surface.get()), path);
  std::unique_ptr<cairo_t, DestroyContext> cairo(cairo_create(surface.get()));
  paint(cairo.get());
  Check(cairo_status(cairo.get()), path);
  cairo.reset();
  if (is_png) return Check(cairo_surface_write_to_png(surface.get(), path.c_str()), path);
  cairo_surface_finish(surface.get());
  Check(cairo_surface_status(surface.get()), path);
  if (format != FileFormat::kPdf) WriteSvgFile(std::move(document), title, texts, path);
}

std::vector<uint32_t> PaintPixels(double width, double height, double pixels_per_point, int32_t* pixels_wide,
                                  int32_t* pixels_high, const std::function<void(cairo_t*)>& paint) {
  *pixels_wide = static_cast<int32_t>(std::lround(pixels_per_point * width));
  *pixels_high = static_cast<int32_t>(std::lround(pixels_per_point * height));
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, *pixels_wide, *pixels_high));
  cairo_surface_set_device_scale(surface.get(), pixels_per_point, pixels_per_point);
  Check(cairo_surface_status(surface.get()), "a figure in the window");
  const std::unique_ptr<cairo_t, DestroyContext> cairo(cairo_create(surface.get()));
  paint(cairo.get());
  Check(cairo_status(cairo.get()), "a figure in the window");
  cairo_surface_flush(surface.get());
  const unsigned char* const bytes = cairo_image_surface_get_data(surface.get());
  const auto stride = static_cast<size_t>(cairo_image_surface_get_stride(surface.get()));
  const auto wide = static_cast<size_t>(*pixels_wide), high = static_cast<size_t>(*pixels_high);
  std::vector<uint32_t> pixels(wide * high);
  for (size_t y = 0; y < high; ++y) std::memcpy(pixels.data() + y * wide, bytes + y * stride, wide * sizeof(uint32_t));
  for (uint32_t& pixel : pixels) pixel |= 0xff000000u;  // the format leaves these bits open
  return pixels;
}

}  // namespace headscope::analysis
