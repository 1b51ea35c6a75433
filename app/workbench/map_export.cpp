// SPDX-License-Identifier: Apache-2.0
#include "map_export.h"

#include "analysis/compare.h"
#include "analysis/report.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "choices/method_choice.h"
#include "data/trace_reader.h"
#include "support/output_file.h"

namespace headscope::app {

namespace {

std::shared_ptr<const kernels::SparseIndex> MaskOf(const analysis::HeadTensors& head, const std::string& method,
                                                   const std::string& parameters, const std::stop_token& stop) {
  const MethodChoice choice = ParseMethod(parameters.empty() ? method : method + ":" + parameters, "method");
  if (choice.prefill == nullptr)
    throw UsageError({.field = "method",
                      .value = method,
                      .problem = "it selects per decode step, which an exported map does not show",
                      .remedy = "turn the mask off"});
  analysis::MaskPreview preview;
  CheckStatus(analysis::PreviewMask(head, *choice.prefill, choice.values, 0, stop, &preview));
  return preview.index;
}

}  // namespace

void WriteMapFile(OpenedTrace& trace, const ui::MapDrawing& drawing, const std::string& path,
                  const std::function<void(double share)>& progress, const std::stop_token& stop) {
  const analysis::HeadTensorsPtr head = trace.heads.Get(drawing.head);
  analysis::RenderRequest request;
  request.row_begin = drawing.row_begin;
  request.row_end = drawing.row_end;
  request.column_begin = drawing.column_begin;
  request.column_end = drawing.column_end;
  request.width = drawing.width;
  request.height = drawing.height;
  request.reduction = drawing.mean ? analysis::TileReduction::kMean : analysis::TileReduction::kMax;
  request.logarithmic = drawing.logarithmic;
  request.range = drawing.range;
  if (!drawing.color_map.empty()) request.color_map = drawing.color_map;
  request.dark_ground = drawing.dark;
  request.progress = progress;
  request.stop = stop;
  analysis::RenderSources sources;
  std::shared_ptr<const kernels::SparseIndex> index, other_index;
  kernels::SparseIndexView view, other_view;
  analysis::HeadTensorsPtr other;
  if (drawing.other_head) {
    other = drawing.other_trace.empty()
                ? trace.heads.Get(*drawing.other_head)
                : analysis::LoadHead(data::TraceReader(drawing.other_trace), *drawing.other_head);
    sources.other = other.get();
    request.view = analysis::ViewKind::kOther;
  } else if (!drawing.method.empty()) {
    index = MaskOf(*head, drawing.method, drawing.parameters, stop);
    view = index->View();
    sources.index = &view;
    request.view = drawing.lost ? analysis::ViewKind::kLost : analysis::ViewKind::kOverlay;
    if (!drawing.other_method.empty()) {
      other_index = MaskOf(*head, drawing.other_method, drawing.other_parameters, stop);
      other_view = other_index->View();
      sources.other_index = &other_view;
      request.view = analysis::ViewKind::kOverlap;
    }
  }
  OutputFile output(path, /*force=*/true);
  output.Write([&](const std::string& temporary) { analysis::DrawHeadMap(*head, sources, request, temporary); });
  output.Commit();
}

}  // namespace headscope::app
