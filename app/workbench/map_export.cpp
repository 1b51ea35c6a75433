// SPDX-License-Identifier: Apache-2.0
#include "map_export.h"

#include <memory>

#include "analysis/report.h"
#include "base/errors.h"
#include "choices/file_method.h"
#include "choices/head_results.h"
#include "choices/map_parts.h"
#include "choices/method_choice.h"
#include "data/trace_reader.h"
#include "support/output_file.h"

namespace headscope::app {

void WriteMapFile(OpenedTrace& trace, const ui::MapDrawing& drawing, bool alone, const std::string& path,
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
  request.profiles = drawing.profiles;
  analysis::RenderSources sources;
  sources.source = MapSourceOf(trace.reader);
  sources.answers = AnswersOf(trace.reader);
  std::unique_ptr<const MapMask> mask, other_mask;
  analysis::HeadTensorsPtr other;
  if (drawing.other_head) {
    if (drawing.other_trace.empty()) {
      other = trace.heads.Get(*drawing.other_head);
    } else {
      const data::TraceReader beside(drawing.other_trace);
      other = analysis::LoadHead(beside, *drawing.other_head);
      sources.other_trace = MapSourceOf(beside).trace;
    }
    sources.other = other.get();
    request.view = analysis::ViewKind::kOther;
  } else if (!drawing.method.empty()) {
    const auto mask_of = [&](const std::string& method, const std::string& parameters) {
      const MethodChoice choice = ParseMethod(MethodArgument(method, parameters), "method");
      CheckMethodIsOfModel(choice.name, trace.reader);
      return MakeMapMask(trace.reader, head, choice, {.alone = alone}, "", stop);
    };
    mask = mask_of(drawing.method, drawing.parameters);
    request.view = drawing.lost ? analysis::ViewKind::kLost : analysis::ViewKind::kOverlay;
    if (!drawing.other_method.empty()) {
      other_mask = mask_of(drawing.other_method, drawing.other_parameters);
      request.view = analysis::ViewKind::kOverlap;
    }
    AddMasks(*mask, other_mask.get(), stop, &sources);
  }
  OutputFile output(path, /*force=*/true);
  output.Write([&](const std::string& temporary) { analysis::DrawHeadMap(*head, sources, request, temporary); });
  output.Commit();
}

}  // namespace headscope::app
