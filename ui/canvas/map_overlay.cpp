// SPDX-License-Identifier: Apache-2.0
#include "map_overlay.h"

#include <algorithm>
#include <cmath>

#include "analysis/types/number_text.h"
#include "kept_text.h"
#include "overlay_drawing.h"

namespace headscope::ui {

using analysis::Format;

namespace {

constexpr double kMinPixelsForValues = 48;  // "1e-04" and the room beside it
constexpr double kBetweenValues = 6;

// A round value as short as it is exact, in digits where FormatProbability has them: "1e-05", "1.5e-04", "0.001".
std::string FormatMark(double value) {
  if (value >= 0.001 * (1 - 1e-9) || value <= 0) return Format("%.3g", value);
  const std::string text = Format("%.0e", value);
  return std::abs(std::stod(text) / value - 1) < 1e-6 ? text : Format("%.1e", value);
}

// The rectangle that is dragged out, and how much it spans.
void DrawSelection(const PixelRect& box, const OverlayOptions& options) {
  const ViewTransform& view = *options.view;
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  list->AddRectFilled(Point(box.x, box.y), Point(box.right(), box.bottom()), IM_COL32(255, 168, 72, 40));
  list->AddRect(Point(box.x, box.y), Point(box.right(), box.bottom()), InksOf(options).accent);
  if (box.width < 1 || box.height < 1) return;
  const std::string text = DescribeSelection(box, view);
  const ImVec2 size = TextSize(text);
  const PixelRect& map = view.viewport();
  const auto width = static_cast<double>(size.x), height = static_cast<double>(size.y);
  const double x = std::clamp(box.x + (box.width - width) / 2, map.x + 5, std::max(map.x + 5, map.right() - width - 5));
  const double y =
      box.bottom() + height + 8 < map.bottom() ? box.bottom() + 5 : std::max(box.y - height - 6, map.y + 3);
  list->AddRectFilled(Point(x - 4, y - 2), Point(x + width + 4, y + height + 2), IM_COL32(20, 20, 20, 220), 3);
  DrawText(list, x, y, kAccentColor, text);
}

ImU32 ToImGui(const analysis::Rgb& color) {
  return IM_COL32(color.red, color.green, color.blue, 255);
}

// Beside a bar that lies.
void DrawLeftOf(const PixelRect& bar, double y, const OverlayInks& inks, const std::string& text) {
  constexpr double kRoom = 7;
  DrawText(ImGui::GetBackgroundDrawList(), bar.x - kRoom - static_cast<double>(TextSize(text).x), y, inks.dim, text);
}

// In place of the colour bar where two masks are compared: their colours are no values.
void DrawKeptByLegend(const PixelRect& bar, bool lies, const OverlayInks& inks) {
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  const double line = ImGui::GetFontSize();
  if (lies) {
    DrawLeftOf(bar, bar.y, inks, "kept by");
    double x = bar.x;
    for (size_t by = 0; by < analysis::kNumKeptBy; ++by) {
      const std::string name(analysis::kKeptByNames[by]);
      list->AddRectFilled(Point(x, bar.y), Point(x + bar.height, bar.bottom()), InkOf(analysis::kKeptByColors[by]));
      DrawText(list, x + bar.height + 5, bar.y + (bar.height - line) / 2, inks.text, name);
      x += bar.height + 5 + static_cast<double>(TextSize(name).x) + line;
    }
    return;
  }
  DrawText(list, bar.x, bar.y - line - 4, inks.dim, "kept by");
  double y = bar.y;
  for (size_t by = 0; by < analysis::kNumKeptBy; ++by) {
    list->AddRectFilled(Point(bar.x, y), Point(bar.right(), y + bar.width), InkOf(analysis::kKeptByColors[by]));
    DrawText(list, bar.right() + 5, y + (bar.width - line) / 2, inks.text, analysis::kKeptByNames[by]);
    y += 1.5 * line;
  }
}

}  // namespace

std::string FormatProbabilityShortly(double probability) {
  if (std::isnan(probability)) return "…";
  if (probability == 0) return "0";
  if (probability < 0.001) return Format("%.0e", probability);
  const std::string text = Format("%.3f", probability);
  return text.front() == '0' ? text.substr(1) : text;
}

std::string DescribeScore(const CanvasModel& model, const CursorScore& score) {
  const auto quoted = [](const std::string& token) { return "“" + token + "”"; };
  std::string text =
      Format("query %lld  ", static_cast<long long>(score.position)) + quoted(model.TokenText(score.position));
  if (score.position != score.row) text += Format("  (recorded row %lld)", static_cast<long long>(score.row));
  text += Format("\nkey    %lld  ", static_cast<long long>(score.column)) + quoted(model.TokenText(score.column));
  if (!score.exact.causal) return text + "\nnot visible to this query: the key comes later";
  if (!score.exact.in_window) return text + "\nnot visible to this query: outside the model's window";
  if (std::isnan(score.exact.probability)) {
    text += "\nreading the head …";
  } else {
    text += "\np = " + FormatProbability(score.exact.probability) + Format("    score = %.4f", score.exact.score);
  }
  const auto side = static_cast<long long>(score.texel_scores);
  if (score.texel_scores > 1 && std::isfinite(score.texel_log2_p)) {
    text += Format("\n%s of the %lld x %lld scores here: ",
                   model.settings().reduction == analysis::TileReduction::kMax ? "largest" : "mean", side, side) +
            FormatProbability(std::exp2(score.texel_log2_p));
  }
  if (score.compared && !std::isnan(score.compared->probability)) {
    text += "\np = " + FormatProbability(score.compared->probability) + " in the other map, " +
            (score.compared->probability >= score.exact.probability ? "+" : "−") +
            FormatProbability(std::fabs(score.compared->probability - score.exact.probability));
  }
  if (score.kept_by) {
    const auto& [first, second, both] = *score.kept_by;
    if (score.texel_scores == 1) {
      text += both > 0     ? "\nkept by both"
              : first > 0  ? "\nkept by 1 only"
              : second > 0 ? "\nkept by 2 only"
                           : "\nkept by neither";
    } else {
      text += Format("\nkept: %.0f %% by 1 only, %.0f %% by 2 only, %.0f %% by both", 100 * first, 100 * second,
                     100 * both);
    }
  }
  if (model.settings().overlay && !std::isnan(score.kept_share)) {
    if (score.texel_scores == 1) {
      text += score.kept_share > 0 ? "\nkept by the method" : "\nnot kept by the method";
      if (model.trial().mask()) {
        if (const std::string choice = DescribeChoice(model, *model.trial().mask()); !choice.empty())
          text += " (" + choice + ")";
      }
    } else {
      text += Format("\nkept: %.0f %% of the scores here", 100 * score.kept_share);
    }
  }
  return text;
}

std::string DescribeSelection(const PixelRect& box, const ViewTransform& view) {
  const auto count = [](double begin, double end, int64_t all) {
    const auto first = static_cast<int64_t>(std::floor(std::max(begin, 0.0)));
    return std::max<int64_t>(std::min(static_cast<int64_t>(std::ceil(end)), all) - first, 0);
  };
  const int64_t rows = count(view.YToRow(box.y), view.YToRow(box.bottom()), view.num_rows());
  const int64_t keys = count(view.XToColumn(box.x), view.XToColumn(box.right()), view.num_columns());
  return Format("%lld %s x %lld %s", static_cast<long long>(rows), rows == 1 ? "query" : "queries",
                static_cast<long long>(keys), keys == 1 ? "key" : "keys");
}

void DrawColorBar(const CanvasModel& model, const OverlayOptions& options) {
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  const PixelRect& area = options.layout->color_bar;
  const bool lies = options.layout->bar_lies;
  const double length = lies ? area.width : area.height;
  constexpr double kShortest = 80, kThick = 14;
  if (length < kShortest) return;
  const OverlayInks& inks = InksOf(options);
  const CanvasSettings& settings = model.settings();
  const double line = ImGui::GetFontSize();
  const PixelRect bar =
      lies ? PixelRect{area.x, area.y, area.width, kThick - 2} : PixelRect{area.x + 2, area.y, kThick, area.height};
  if (model.comparison() == Comparison::kMasks) return DrawKeptByLegend(bar, lies, inks);
  // A comparison of probabilities is signed: less at the lower end, nothing in the middle.
  const bool is_signed = model.comparison() == Comparison::kValues;
  const analysis::Palette& palette = is_signed ? analysis::DivergingPalette() : settings.color_map->palette;
  constexpr size_t kSteps = 128;
  for (size_t step = 0; step < kSteps; ++step) {
    const double begin = length * static_cast<double>(step) / kSteps, end = begin + length / kSteps;
    const ImU32 color = ToImGui(palette[step * 2 + 1]);
    if (lies) {
      list->AddRectFilled(Point(bar.x + begin, bar.y), Point(std::min(bar.x + end + 0.5, bar.right()), bar.bottom()),
                          color);
    } else {
      list->AddRectFilled(Point(bar.x, bar.bottom() - end), Point(bar.right(), bar.bottom() - begin + 0.5), color);
    }
  }
  list->AddRect(Point(bar.x, bar.y), Point(bar.right(), bar.bottom()), inks.line);
  const int ticks = std::max(2, static_cast<int>(length / (is_signed ? 120 : 60)));
  const auto mark = [&](double place, const std::string& text) {
    if (lies) {
      const double x = bar.x + bar.width * place, width = static_cast<double>(TextSize(text).x);
      list->AddLine(Point(x, bar.bottom()), Point(x, bar.bottom() + 3), inks.line);
      DrawText(list, std::clamp(x - width / 2, bar.x - 2, std::max(bar.x - 2, bar.right() - width + 2)),
               bar.bottom() + 3, inks.text, text);
      return;
    }
    const double y = bar.bottom() - bar.height * place;
    list->AddLine(Point(bar.right(), y), Point(bar.right() + 3, y), inks.line);
    const double text_y = std::min(std::max(y - line / 2, bar.y - 2), bar.bottom() - line + 2);
    DrawText(list, bar.right() + 5, text_y, inks.text, text);
  };
  for (const double value : analysis::RoundValues(settings.range, settings.logarithmic, ticks)) {
    const auto log2_value = static_cast<float>(std::log2(value));
    const float position = analysis::ScalePosition(log2_value, settings.range, settings.logarithmic);
    const auto place = static_cast<double>(position);
    if (!is_signed) {
      mark(place, FormatMark(value));
    } else if (place > 0.05) {  // the two of the least value would lie over each other
      mark(0.5 + place / 2, "+" + FormatMark(value));
      mark(0.5 - place / 2, "−" + FormatMark(value));
    }
  }
  if (is_signed) mark(0.5, "0");
  const std::string what = is_signed ? "2 − 1, " : "p, ";
  const std::string scale = what + (settings.logarithmic ? "log" : "linear");
  const std::string of = settings.reduction == analysis::TileReduction::kMax ? "largest" : "mean";
  if (lies) {
    DrawLeftOf(bar, bar.y - 2, inks, scale);
    DrawLeftOf(bar, bar.y - 2 + line, inks, of);
    return;
  }
  DrawText(list, bar.x, area.y - 2 * line - 4, inks.dim, scale);
  DrawText(list, bar.x, area.y - line - 4, inks.dim, of);
}

void DrawScoreValues(CanvasModel& model, const OverlayOptions& options) {
  const ViewTransform& view = *options.view;
  const double pixels = view.pixels_per_score();
  if (pixels < kMinPixelsForValues || view.Level(options.device_pixel_ratio) != 0) return;
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  const ScoreRect visible = view.Visible();
  const std::optional<PixelRect> minimap = options.live ? model.MinimapRect() : std::nullopt;
  PushClip(list, view.viewport());
  for (auto row = static_cast<int64_t>(visible.row_begin); static_cast<double>(row) < visible.row_end; ++row) {
    for (auto column = static_cast<int64_t>(visible.column_begin); static_cast<double>(column) < visible.column_end;
         ++column) {
      const std::optional<float> log2_p = model.ScoreLog2(row, column);
      if (!log2_p) continue;
      const double x = view.ColumnToX(static_cast<double>(column)), y = view.RowToY(static_cast<double>(row));
      if (minimap && minimap->Contains(x + pixels / 2, y + pixels / 2)) continue;
      list->AddRect(Point(x, y), Point(x + pixels + 1, y + pixels + 1), IM_COL32(0, 0, 0, 60));
      const double probability = std::exp2(static_cast<double>(*log2_p));
      std::string text = FormatProbability(probability);
      // Digits that touch those of the next score would read as one number.
      if (static_cast<double>(TextSize(text).x) + kBetweenValues > pixels) text = FormatProbabilityShortly(probability);
      const ImVec2 size = TextSize(text);
      const double text_x = x + (pixels - static_cast<double>(size.x)) / 2;
      const double text_y = y + (pixels - static_cast<double>(size.y)) / 2;
      // A shadow keeps the digits readable on every colour of every palette.
      DrawText(list, text_x + 1, text_y + 1, IM_COL32(0, 0, 0, 220), text);
      DrawText(list, text_x, text_y, IM_COL32(245, 245, 245, 255), text);
    }
  }
  list->PopClipRect();
}

void DrawCursor(const CanvasModel& model, const OverlayOptions& options) {
  if (!model.cursor()) return;
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  const ViewTransform& view = *options.view;
  const CursorScore& score = *model.cursor();
  const PixelRect& map = view.viewport();
  const double x = view.ColumnToX(static_cast<double>(score.column) + 0.5);
  const double y = view.RowToY(static_cast<double>(score.row) + 0.5);
  const OverlayInks& inks = InksOf(options);
  PushClip(list, map);
  list->AddLine(Point(x, map.y), Point(x, map.bottom()), inks.crosshair);
  list->AddLine(Point(map.x, y), Point(map.right(), y), inks.crosshair);
  if (view.pixels_per_score() >= 6) {
    const double half = view.pixels_per_score() / 2;
    list->AddRect(Point(x - half, y - half), Point(x + half, y + half), inks.accent);
  }
  list->PopClipRect();

  // The rulers: exact numbers at the crosshair's ends.
  const double line = ImGui::GetFontSize();
  const auto label = [&](double left, double top, const std::string& text) {
    const ImVec2 size = TextSize(text);
    list->AddRectFilled(Point(left - 3, top - 1), Point(left + static_cast<double>(size.x) + 3, top + line + 1),
                        IM_COL32(60, 42, 20, 255), 3);
    DrawText(list, left, top, kAccentColor, text);
  };
  const std::string column = std::to_string(score.column), position = std::to_string(score.position);
  label(x - static_cast<double>(TextSize(column).x) / 2, map.y - line - 5, column);
  label(map.x - 6 - static_cast<double>(TextSize(position).x), y - line / 2, position);

  if (!options.tooltip.empty()) {
    ImGui::BeginTooltip();
    ImGui::TextUnformatted(options.tooltip.c_str());
    ImGui::EndTooltip();
  }
}

std::string EmptyMapText(const CanvasModel& model, const std::string& trace_name) {
  if (model.trace().path.empty()) return "Open a trace to look at its heads.";
  if (const std::optional<analysis::HeadId>& missing = model.missing_head()) {
    return (trace_name.empty() ? "This trace" : trace_name) +
           Format(" has no head %d:%d: choose another one, which both traces have.", missing->layer, missing->head);
  }
  return "Choose a head in the matrix or the table.";
}

void DrawMapOverlay(CanvasModel& model, const OverlayOptions& options) {
  const ViewTransform& view = *options.view;
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  // Around all of it, where nothing else is drawn.
  if (options.focused) list->AddRect({0, 0}, ImGui::GetIO().DisplaySize, InksOf(options).accent);
  if (!model.head() || view.empty()) {
    if (options.live) {
      const PixelRect& map = options.layout->map;
      double y = map.y + 12;
      for (const std::string& part : WrappedLines(EmptyMapText(model, options.trace_name), map.width - 24)) {
        DrawText(list, map.x + 12, y, InksOf(options).dim, part);
        y += ImGui::GetFontSize() + 3;
      }
    }
    return;
  }
  DrawBrush(model, options);
  DrawScoreValues(model, options);
  DrawAxes(model, options);
  DrawSteps(model, options);
  DrawProfiles(model, options);
  DrawColorBar(model, options);
  DrawCaptions(model, options);
  if (!options.live) return;
  if (options.named) DrawName(model, options);
  DrawComparison(model, options);
  DrawGhost(model, options);
  if (const std::optional<PixelRect> minimap = model.MinimapRect()) {
    const ScoreRect visible = view.Visible();
    const double x_scale = minimap->width / static_cast<double>(view.num_columns()),
                 y_scale = minimap->height / static_cast<double>(view.num_rows());
    list->AddRect(Point(minimap->x, minimap->y), Point(minimap->right(), minimap->bottom()), kLineColor);
    const double x = minimap->x + visible.column_begin * x_scale, y = minimap->y + visible.row_begin * y_scale;
    list->AddRect(Point(x, y),
                  Point(std::max(minimap->x + visible.column_end * x_scale, x + 3),
                        std::max(minimap->y + visible.row_end * y_scale, y + 3)),
                  InksOf(options).accent);
  }
  if (options.selection) DrawSelection(*options.selection, options);
  DrawNotes(model, options);
  DrawMark(model, options);
  DrawOtherCursor(model, options);
  DrawCursor(model, options);
  const int64_t pending = model.tiles().num_pending();
  if (pending > 0) {
    const std::string text =
        Format("coarse: %lld tile%s pending", static_cast<long long>(pending), pending == 1 ? "" : "s");
    const PixelRect& map = view.viewport();
    const double width = static_cast<double>(TextSize(text).x);
    list->AddRectFilled(Point(map.right() - width - 14, map.bottom() - 24), Point(map.right() - 4, map.bottom() - 4),
                        IM_COL32(20, 20, 20, 210), 3);
    DrawText(list, map.right() - width - 9, map.bottom() - 22, kAccentColor, text);
  }
}

}  // namespace headscope::ui
