// SPDX-License-Identifier: Apache-2.0
// The title over an exported map and the legend under it: which head of what, what the colours and curves mean, and
// what the method keeps.
#include <algorithm>
#include <cmath>

#include "analysis/types/number_text.h"
#include "kept_text.h"
#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

using analysis::Format;

namespace {

constexpr float kTitleSize = 20;  // pixels

std::string ColorText(const CanvasSettings& settings) {
  std::string text = "Colour: attention probability p, the ";
  text += settings.reduction == analysis::TileReduction::kMax ? "largest" : "mean";
  text += " of a pixel's scores, ";
  text += settings.logarithmic ? "logarithmic" : "linear";
  return text + " scale. Hatched: keys after the query.";
}

std::string CurvesText(bool overlay) {
  std::string text = "Right of the map: share of each query's attention on the visible keys, grey";
  if (overlay) text += ", and kept by the method, blue";
  return text + ". Below: mean p per key.";
}

std::string MaskText(const CanvasModel& model, const LiveMask& mask) {
  const analysis::MaskSummary& kept = mask.summary;
  const kernels::MethodSpec* const spec = model.trial().method();
  std::string text = spec != nullptr && spec->name == kept.method ? spec->title : kept.method;
  if (!kept.parameters.empty()) text += " (" + kept.parameters + ")";
  if (mask.steps) text += ", " + DescribeSteps(model, *mask.steps);
  if (const std::string choice = DescribeChoice(model, mask); !choice.empty()) text += ", " + choice;
  text += model.settings().lost ? ". Grey: kept, colours: left out" : ". Grey: left out";
  text += Format("; kept: %.2f %% of the %s%s. ", 100 * kept.kept_fraction,
                 model.trace().first_token > 0 ? "cut's " : "", mask.steps ? "keys" : "scores");
  text += DescribeCra(mask) + ".";
  if (const std::string outside = DescribeOutside(mask); !outside.empty()) text += " " + outside + ".";
  return text;
}

}  // namespace

std::string TitleText(const CanvasModel& model) {
  if (!model.head()) return {};
  return Format("Attention map of layer %d, head %d (KV head %d)", model.head()->layer, model.head()->head,
                model.kv_head());
}

std::string SourceText(const CanvasModel& model, const ViewTransform& view) {
  if (!model.head()) return {};
  const TraceSummary& trace = model.trace();
  const ScoreRect visible = view.Visible();
  const auto first_row = static_cast<int64_t>(visible.row_begin);
  const auto last_row = std::max(first_row, static_cast<int64_t>(std::ceil(visible.row_end)) - 1);
  std::string text = trace.model_name;
  if (!trace.prompt_source.empty()) text += ", " + trace.prompt_source;
  text += ", " + analysis::Grouped(trace.num_tokens);
  text += Format(" tokens: queries %lld to %lld, ", static_cast<long long>(model.rows().Position(first_row)),
                 static_cast<long long>(model.rows().Position(last_row)));
  return text + Format("keys %lld to %lld", static_cast<long long>(visible.column_begin),
                       static_cast<long long>(std::ceil(visible.column_end)) - 1);
}

std::string CaptionText(const CanvasModel& model) {
  if (!model.head()) return {};
  const CanvasSettings& settings = model.settings();
  const auto& mask = model.trial().mask();
  const Comparison comparison = model.comparison();
  const bool overlay = settings.overlay && mask.has_value() && comparison != Comparison::kValues;
  std::string text = ColorText(settings);
  if (comparison == Comparison::kValues)
    text = "Colour: attention probability of the second map minus the first's, red where the second has more. " + text;
  if (const CanvasModel::ComparedPart part = model.Compared(); part.is_shorter)
    text += " Compared: the first " + analysis::Grouped(part.num_rows) + " queries, which both have.";
  if (comparison == Comparison::kMasks) {
    const std::vector<std::string> texts = ComparisonTexts(model);
    text = "Colour: which method keeps a score, brighter for higher probability. Orange: " + texts[0] +
           "; blue: " + texts[1] + "; green: " + texts[2] + ".";
  }
  if (settings.profiles) text += "\n" + CurvesText(overlay);
  if (overlay) text += "\n" + MaskText(model, *mask);
  return text;
}

void DrawCaptions(const CanvasModel& model, const OverlayOptions& options) {
  const CanvasLayout& layout = *options.layout;
  if (layout.caption.height <= 0) return;
  const OverlayInks& inks = InksOf(options);
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  PushClip(list, layout.title);
  const std::string title = TitleText(model);
  list->AddText(ImGui::GetFont(), kTitleSize, Point(layout.title.x, layout.title.y), inks.text, title.data(),
                title.data() + title.size());
  DrawText(list, layout.title.x, layout.title.y + static_cast<double>(kTitleSize) + 4, inks.dim,
           SourceText(model, *options.view));
  list->PopClipRect();
  PushClip(list, layout.caption);
  const std::string caption = CaptionText(model);
  list->AddText(ImGui::GetFont(), ImGui::GetFontSize(), Point(layout.caption.x, layout.caption.y), inks.text,
                caption.data(), caption.data() + caption.size(), static_cast<float>(layout.caption.width));
  list->PopClipRect();
}

}  // namespace headscope::ui
