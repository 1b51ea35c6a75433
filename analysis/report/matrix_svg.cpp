// SPDX-License-Identifier: Apache-2.0
#include "report/matrix_svg.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/types/matrix_painter.h"
#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/utf8.h"
#include "report/svg_text.h"

namespace headscope::analysis {
namespace {

// Of cells that are whole pixels large a tenth of a pixel is enough.
std::string TenthsOf(const char* name, double value) {
  return SvgAttribute(name, value, 10);
}

std::string Tooltip(const HeadStatistics& head) {
  std::string text = "layer ";
  text += std::to_string(head.id.layer) + ", head " + std::to_string(head.id.head) + " (KV head " +
          std::to_string(head.kv_head) + ")\n" + HeadClassName(head.head_class) + ": " + head.class_reason;
  for (const MetricInfo& metric : Metrics()) {
    const double value = MetricValue(head, metric.name);
    if (!std::isnan(value) && !(metric.of_sinks && value == 0))
      text += "\n" + metric.title + ": " + FormatNumber("%.4g", value) + (metric.unit.empty() ? "" : " " + metric.unit);
  }
  return text;
}

class SvgSurface : public MatrixSurface {
 public:
  explicit SvgSurface(const std::map<HeadId, const HeadStatistics*>& heads) : heads_(heads) {}

  void Fill(const Box& box, Rgb color) override { Rectangle(box, HexColor(color)); }
  // The report is of computed statistics: only a metric that a head lacks is hatched, and left empty here.
  void Hatch(const Box& box) override { Rectangle(box, "none"); }
  void Line(double x0, double y0, double x1, double y1) override {
    svg_ += "<line" + TenthsOf("x1", x0) + TenthsOf("y1", y0) + TenthsOf("x2", x1) + TenthsOf("y2", y1) +
            " stroke=\"currentColor\" stroke-opacity=\"0.65\"/>";
  }
  void Write(Text kind, double x, double y, Anchor anchor, const std::string& text, std::optional<Rgb> ink) override {
    std::string css = anchor == Anchor::kCentre ? "mid" : anchor == Anchor::kRight ? "end" : "";
    if (kind == Text::kLabel) css += " dim";
    svg_ += "<text" + TenthsOf("x", x) + TenthsOf("y", y + kBaseline) + " class=\"" + css + "\"" +
            (ink ? " style=\"fill:" + HexColor(*ink) + "\"" : "") + ">" + EscapeHtml(text) + "</text>";
  }
  void WriteUpwards(double x, double y, const std::string& text) override {
    svg_ += "<text transform=\"translate(" + ShortestNumber(std::round(x)) + "," + ShortestNumber(std::round(y)) +
            ") rotate(-90)\"" + TenthsOf("y", kBaseline) + " class=\"mid dim\">" + EscapeHtml(text) + "</text>";
  }
  // Of the page's 11-pixel sans serif, whose digits are 6.2 wide; its browser is not asked.
  double Width(Text, const std::string& text) const override {
    return 6.2 * static_cast<double>(std::ssize(text) - std::count_if(text.begin(), text.end(), IsInsideCharacter));
  }
  double Height(Text) const override { return 13; }
  void BeginCell(HeadId head) override { svg_ += "<g><title>" + EscapeHtml(Tooltip(*heads_.at(head))) + "</title>"; }
  void EndCell(HeadId, const Box&) override { svg_ += "</g>\n"; }

  const std::string& svg() const { return svg_; }

 private:
  static constexpr double kBaseline = 4;  // below the middle of a line

  void Rectangle(const Box& box, const std::string& fill) {
    svg_ += "<rect" + TenthsOf("x", box.x) + TenthsOf("y", box.y) + TenthsOf("width", box.width) +
            TenthsOf("height", box.height) + " fill=\"" + fill + "\"/>";
  }

  const std::map<HeadId, const HeadStatistics*>& heads_;
  std::string svg_;
};

}  // namespace

std::string EscapeHtml(const std::string& text) {
  std::string escaped;
  for (const char character : PrintableLines(text)) {
    switch (character) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += character;
    }
  }
  return escaped;
}

std::string MatrixSvg(const std::vector<HeadStatistics>& statistics, const MetricInfo& metric, double cell_width,
                      double cell_height) {
  std::map<HeadId, const HeadStatistics*> heads;
  std::vector<HeadId> ids;
  std::vector<int32_t> kv_heads;
  std::vector<double> values;
  for (const HeadStatistics& head : statistics) {
    heads[head.id] = &head;
    ids.push_back(head.id);
    kv_heads.push_back(head.kv_head);
    values.push_back(MetricValue(head, metric.name));
  }
  SvgSurface surface(heads);
  MatrixPicture picture;
  picture.layout = MatrixLayout(ids, kv_heads);
  picture.scale = MetricScale(metric, values);
  picture.cell = [&](HeadId head) { return CellOfMetric(*picture.scale, MetricValue(*heads.at(head), metric.name)); };
  const MatrixMargins margins = LabelMargins(surface);
  // On whole pixels: fractions would blur every edge.
  picture.layout.Place(std::ceil(margins.left), std::ceil(margins.top), cell_width, cell_height);
  const Box bounds = picture.layout.Bounds();
  const double width = std::ceil(margins.left) + std::max(bounds.width, kLeastMatrixWidth) + 2;
  PaintMatrix(picture, width, &surface);
  return "<svg" + TenthsOf("width", width) +
         TenthsOf("height", std::ceil(bounds.bottom() + LegendHeight(surface, picture)) + 4) +
         " role=\"img\" aria-label=\"" + EscapeHtml(metric.title) + " by layer and head\">\n" + surface.svg() +
         "\n</svg>\n";
}

}  // namespace headscope::analysis
