// The legend under an exported map: which head of what, what the colours mean, and what the method keeps of it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

std::string CaptionText(const CanvasModel& model, const ViewTransform& view) {
  if (!model.head()) return {};
  const TraceSummary& trace = model.trace();
  const CanvasSettings& settings = model.settings();
  const ScoreRect visible = view.Visible();
  const auto first_row = static_cast<int64_t>(visible.row_begin);
  const auto last_row = std::max(first_row, static_cast<int64_t>(std::ceil(visible.row_end)) - 1);
  std::array<char, 512> line{};
  std::snprintf(
      line.data(), line.size(), "Layer %d, head %d (KV head %d) of %s; queries %lld to %lld, keys %lld to %lld",
      model.head()->layer, model.head()->head, model.kv_head(), trace.model_name.c_str(),
      static_cast<long long>(model.rows().Position(first_row)), static_cast<long long>(model.rows().Position(last_row)),
      static_cast<long long>(visible.column_begin), static_cast<long long>(std::ceil(visible.column_end)) - 1);
  std::string text = line.data();
  text += settings.reduction == analysis::TileReduction::kMax
              ? "\nColour: attention probability p, the largest of a pixel's scores"
              : "\nColour: attention probability p, the mean of a pixel's scores";
  text += settings.logarithmic ? ", logarithmic scale; hatched: keys after the query"
                               : ", linear scale; hatched: keys after the query";
  const auto& mask = model.trial().mask();
  if (!settings.overlay || !mask) return text;
  if (mask->steps) text += "\n" + mask->summary.method + " " + DescribeSteps(model, *mask->steps);
  std::snprintf(line.data(), line.size(),
                "\n%s: grey is left out; kept are %.2f %% of the %s and of a query's mass at least %.4f, on average "
                "%.4f\n%s",
                mask->summary.method.c_str(), 100 * mask->summary.kept_fraction, mask->steps ? "keys" : "scores",
                mask->summary.cra_min, mask->summary.cra_mean, mask->summary.parameters.c_str());
  return text + line.data();
}

void DrawCaption(const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& area = options.layout->caption;
  if (area.height <= 0) return;
  const std::string text = CaptionText(model, *options.view);
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  PushClip(list, area);
  list->AddText(ImGui::GetFont(), ImGui::GetFontSize(), Point(area.x, area.y), kTextColor, text.data(),
                text.data() + text.size(), static_cast<float>(area.width));
  list->PopClipRect();
}

}  // namespace headscope::ui
