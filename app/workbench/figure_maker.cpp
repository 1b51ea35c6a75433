// SPDX-License-Identifier: Apache-2.0
#include "figure_maker.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "analysis/figure_drawing.h"
#include "base/errors.h"
#include "base/quoted_text.h"
#include "base/stop.h"
#include "choices/figure_traces.h"
#include "choices/head_results.h"
#include "data/trace_reader.h"
#include "head_classes.h"
#include "support/figure_file.h"
#include "support/output_file.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

// Of a page, until its panels have room.
constexpr double kLargerPages[] = {1, 1.4, 2, 2.8, 4};

// Those of the drawing that the trace has.
std::vector<analysis::HeadId> HeadsIn(const data::TraceReader& reader, const std::vector<analysis::HeadId>& wanted) {
  std::vector<analysis::HeadId> recorded = analysis::RecordedHeads(reader);
  if (wanted.empty()) return recorded;
  std::erase_if(recorded, [&](const analysis::HeadId& head) {
    return std::find(wanted.begin(), wanted.end(), head) == wanted.end();
  });
  if (recorded.empty())
    throw UsageError({.file = reader.path(),
                      .problem = "it has none of the chosen heads",
                      .remedy = "choose all heads for this figure"});
  return recorded;
}

// Whether one figure serves both: they differ at most in how it is painted.
bool IsSameFigure(ui::FigureDrawing a, const ui::FigureDrawing& b) {
  a.width = b.width;
  a.height = b.height;
  a.dark = b.dark;
  a.captions = b.captions;
  return a == b;
}

analysis::FigureLook LookOf(const ui::FigureDrawing& drawing) {
  return {.dark = drawing.dark, .captions = drawing.captions};
}

}  // namespace

std::vector<ui::FigureChoice> FigureChoices() {
  std::vector<ui::FigureChoice> choices;
  for (const analysis::FigureMaker* maker : analysis::FigureMakers()) {
    const analysis::FigureInfo& info = maker->info();
    choices.push_back({info.name, info.title, info.source, info.help, info.least_traces, info.by_class, info.of_runs});
  }
  return choices;
}

std::shared_ptr<const analysis::Figure> FigureCache::Make(const std::shared_ptr<OpenedTrace>& trace,
                                                          const ui::FigureDrawing& drawing,
                                                          const std::function<void(double share)>& progress,
                                                          const std::stop_token& stop) {
  {
    const std::lock_guard lock(mutex_);
    if (figure_ && drawing.other_trace.empty() && trace_.lock() == trace && IsSameFigure(made_of_, drawing))
      return figure_;
    if (trace_.lock() != trace) figure_.reset();
  }
  const analysis::FigureMaker* const maker = analysis::FindFigure(drawing.name);
  if (maker == nullptr)
    throw UsageError({.field = "figure",
                      .value = Quoted(drawing.name),
                      .problem = "it is not known",
                      .remedy = "choose one from the list"});
  analysis::FigureInput input;
  input.max_rows = drawing.max_rows;
  input.classes = HeadClasses::RulesOf(drawing.class_thresholds);
  input.stop = stop;
  input.progress = progress;
  std::unique_ptr<data::TraceReader> other;
  CheckQueryRows(trace->reader);
  std::vector<std::string> paths = {trace->reader.path()};
  if (!drawing.other_trace.empty()) paths.push_back(drawing.other_trace);
  const std::vector<std::string> names = NamesOfTraces(paths);
  input.traces.push_back({&trace->reader, names.front(), HeadsIn(trace->reader, drawing.heads)});
  if (drawing.runs != nullptr) input.traces.front().runs = *drawing.runs;
  if (!drawing.other_trace.empty()) {
    other = std::make_unique<data::TraceReader>(drawing.other_trace);
    CheckQueryRows(*other);
    input.traces.push_back({other.get(), names.back(), HeadsIn(*other, drawing.heads)});
  }
  auto figure = std::make_shared<const analysis::Figure>(analysis::MakeFigure(*maker, input));
  StopIfAsked(stop);
  const std::lock_guard lock(mutex_);
  made_of_ = drawing;
  trace_ = trace;
  return figure_ = std::move(figure);
}

ui::FigurePicturePtr PaintPicture(const analysis::Figure& figure, const ui::FigureDrawing& drawing,
                                  double pixels_per_point) {
  for (const double larger : kLargerPages) {
    const auto side = [&](int32_t points) { return static_cast<int32_t>(std::lround(larger * points)); };
    try {
      analysis::FigurePixels pixels = analysis::PaintFigure(figure, side(drawing.width), side(drawing.height),
                                                            pixels_per_point / larger, LookOf(drawing));
      return std::make_shared<const ui::FigurePicture>(ui::FigurePicture{
          figure.title, figure.source, figure.caption, pixels.width, pixels.height, std::move(pixels.rgb)});
    } catch (const UsageError&) {
      if (larger == *std::rbegin(kLargerPages)) throw;
    }
  }
  return nullptr;  // not reached: the last page is painted, or its error is thrown
}

void WriteFigure(const analysis::Figure& figure, const data::TraceReader& trace, const ui::FigureDrawing& drawing,
                 const std::string& path) {
  const int32_t height = drawing.height > 0 ? drawing.height : analysis::FigureHeight(figure, drawing.width);
  std::vector<std::string> traces = {trace.path()}, models = {trace.layout().model.name};
  if (!drawing.other_trace.empty()) {
    traces.push_back(drawing.other_trace);
    models.push_back(data::TraceReader(drawing.other_trace).layout().model.name);
  }
  WriteFigureFile(figure, drawing.width, height, LookOf(drawing), path, /*force=*/true,
                  OriginColumns(OriginOf(traces, models)));
}

}  // namespace headscope::app
