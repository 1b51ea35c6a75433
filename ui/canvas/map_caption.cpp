// SPDX-License-Identifier: Apache-2.0
// The title over an exported map and the legend under it: what is on show, for analysis/types/map_words.h to say.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "kept_text.h"
#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

namespace {

constexpr float kTitleSize = 20;  // pixels

analysis::MapMethod MethodOf(const CanvasModel& model, const LiveMask& mask) {
  const kernels::MethodSpec* const spec = model.trial().method();
  analysis::MapMethod method;
  method.title = spec != nullptr && spec->name == mask.summary.method ? spec->title : mask.summary.method;
  method.summary = mask.summary;
  method.num_rows = std::ssize(mask.kept_mass);
  method.of_steps = mask.steps != nullptr;
  if (mask.steps) method.steps = DescribeSteps(model, *mask.steps);
  method.choice = DescribeChoice(model, mask);
  return method;
}

std::string FileNameOf(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

analysis::ViewKind ViewOf(const CanvasModel& model) {
  switch (model.comparison()) {
    case Comparison::kMasks:
      return analysis::ViewKind::kOverlap;
    case Comparison::kValues:
      return analysis::ViewKind::kOther;
    case Comparison::kNone:
      break;
  }
  if (!model.settings().overlay || !model.trial().mask()) return analysis::ViewKind::kScores;
  return model.settings().lost ? analysis::ViewKind::kLost : analysis::ViewKind::kOverlay;
}

}  // namespace

analysis::MapCaption CaptionOf(const CanvasModel& model, const ViewTransform& view) {
  if (!model.head()) return {};
  const TraceSummary& trace = model.trace();
  const CanvasSettings& settings = model.settings();
  const ScoreRect visible = view.Visible();
  const auto first_row = static_cast<int64_t>(visible.row_begin);
  const auto last_row = std::max(first_row, static_cast<int64_t>(std::ceil(visible.row_end)) - 1);
  analysis::MapOnShow map;
  map.view = ViewOf(model);
  map.head = *model.head();
  map.kv_head = model.kv_head();
  map.source = {trace.model_name, trace.prompt_source, FileNameOf(trace.path), trace.num_tokens, trace.first_token};
  map.first_query = model.rows().Position(first_row);
  map.last_query = model.rows().Position(last_row);
  map.first_key = static_cast<int64_t>(visible.column_begin);
  map.last_key = static_cast<int64_t>(std::ceil(visible.column_end)) - 1;
  map.reduction = settings.reduction;
  map.logarithmic = settings.logarithmic;
  map.profiles = settings.profiles;
  const auto in_view = [](const analysis::TokenSpan& span, int64_t first, int64_t last) {
    return span.begin <= last && span.end > first;
  };
  map.answers = std::any_of(model.answers().begin(), model.answers().end(), [&](const analysis::TokenSpan& span) {
    return in_view(span, map.first_key, map.last_key) || in_view(span, map.first_query, map.last_query);
  });
  if (const std::optional<LiveMask>& mask = model.trial().mask()) {
    map.method = MethodOf(model, *mask);
    map.outside_mass = mask->outside_mass;
  }
  if (const CanvasModel* const other = model.other()) {
    if (other->trial().mask()) map.other_method = MethodOf(*other, *other->trial().mask());
    map.overlap = model.overlap();
    map.other_head = other->head();
    if (other->trace().path != trace.path) map.other_trace = FileNameOf(other->trace().path);
  }
  if (const CanvasModel::ComparedPart part = model.Compared(); part.is_shorter) map.compared_rows = part.num_rows;
  return analysis::DescribeMap(map);
}

CaptionLines LinesOf(const analysis::MapCaption& caption, double picture_width) {
  const double width = picture_width - 2 * kCaptionMargin;
  CaptionLines lines;
  lines.source = analysis::WrapWords(caption.source, width, kCaptionLetters);
  for (const std::string& line : caption.lines) {
    for (std::string& part : analysis::WrapWords(line, width, kCaptionLetters)) lines.legend.push_back(std::move(part));
  }
  return lines;
}

void DrawCaptions(const CanvasModel& model, const OverlayOptions& options) {
  const CanvasLayout& layout = *options.layout;
  if (layout.caption.height <= 0) return;
  const OverlayInks& inks = InksOf(options);
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  PushClip(list, layout.title);
  const analysis::MapCaption caption = CaptionOf(model, *options.view);
  list->AddText(ImGui::GetFont(), kTitleSize, Point(layout.title.x, layout.title.y), inks.text, caption.title.data(),
                caption.title.data() + caption.title.size());
  const CaptionLines lines = LinesOf(caption, layout.caption.width + 2 * kCaptionMargin);
  double y = layout.title.y + static_cast<double>(kTitleSize) + 4;
  for (const std::string& line : lines.source) {
    DrawText(list, layout.title.x, y, inks.dim, line);
    y += kCaptionLine;
  }
  list->PopClipRect();
  PushClip(list, layout.caption);
  y = layout.caption.y;
  for (const std::string& line : lines.legend) {
    DrawText(list, layout.caption.x, y, inks.text, line);
    y += kCaptionLine;
  }
  list->PopClipRect();
}

}  // namespace headscope::ui
