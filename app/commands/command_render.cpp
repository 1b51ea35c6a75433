// SPDX-License-Identifier: Apache-2.0
// headscope render TRACE --head L:H [--view scores|overlay|lost|mask|difference|other|overlap] [--rows a:b] [--cols
// a:b]
//                   [--other TRACE] [--other-head L:H] [--other-method NAME] [--size WxH] -o OUT.png|.svg|.pdf
// headscope render TRACE.. --figure NAME [--heads ..] -o OUT.svg|.pdf|.png|.json|.csv
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <stop_token>

#include "analysis/figure_drawing.h"
#include "analysis/figures.h"
#include "analysis/report.h"
#include "analysis/result_files.h"
#include "analysis/types/color_map.h"
#include "analysis/types/color_map_label.h"
#include "base/device.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "base/quoted_text.h"
#include "choices/device_choice.h"
#include "choices/figure_traces.h"
#include "choices/head_results.h"
#include "choices/head_selection.h"
#include "choices/map_parts.h"
#include "choices/method_choice.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/head_notes.h"
#include "data/trace_reader.h"
#include "support/exit_codes.h"
#include "support/figure_file.h"
#include "support/interrupt.h"
#include "support/listed.h"
#include "support/messages.h"
#include "support/output_file.h"
#include "support/progress_line.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

struct RenderArguments {
  std::vector<std::string> traces;
  std::string figure, heads;
  std::vector<std::string> runs;
  ClassOptions classes;
  int64_t max_rows = analysis::FigureInput{}.max_rows;
  int32_t num_threads = 0;
  bool list_figures = false;
  std::string trace, head, view = "scores", rows, columns, size, reduction = "max", scale = "log",
                           color_map = "inferno", ground = "light", method, range, output;
  std::string other_trace, other_head, other_method;  // what the view compares with
  std::string measure = "layer";
  int32_t decode_rows = 0;
  Device device = kCpu;
  bool profiles = false, force = false, quiet = false;
};

template <typename T>
T OneOf(const std::string& value, const std::string& field, std::initializer_list<std::pair<const char*, T>> choices) {
  for (const auto& [name, result] : choices) {
    if (value == name) return result;
  }
  throw UsageError({.field = field,
                    .problem = Quoted(value) + " is not known",
                    .remedy = "choose from " + Listed(choices, &std::pair<const char*, T>::first)});
}

// Name, source and what is drawn of every figure.
std::string FigureTable() {
  std::string text;
  for (const analysis::FigureMaker* maker : analysis::FigureMakers()) {
    const analysis::FigureInfo& info = maker->info();
    text += info.name + std::string(std::max<size_t>(2, 22 - info.name.size()), ' ') + info.help;
    if (!info.source.empty()) text += " (" + info.source + ")";
    text += info.least_traces > 1 ? ", of several traces\n" : "\n";
  }
  return text;
}

int RunFigure(const RenderArguments& arguments) {
  const analysis::FigureMaker* maker = analysis::FindFigure(arguments.figure);
  if (maker == nullptr) {
    std::vector<std::string> names;
    for (const analysis::FigureMaker* one : analysis::FigureMakers()) names.push_back(one->info().name);
    throw UsageError({.field = "figure",
                      .problem = Quoted(arguments.figure) + " is not known",
                      .remedy = "choose from " + Listed(names)});
  }
  if (!arguments.head.empty())
    throw UsageError(
        {.field = "head", .problem = "it chooses the head of a map", .remedy = "for a figure give --heads"});
  FormatOfOutput(arguments.output, kFigureFormats);
  CheckOutputTarget(arguments.output, arguments.force, arguments.traces);
  std::optional<std::pair<int32_t, int32_t>> size;
  if (!arguments.size.empty()) size = ParseSize(arguments.size, "size");
  analysis::FigureLook look;
  look.dark = OneOf<bool>(arguments.ground, "ground", {{"light", false}, {"dark", true}});
  std::vector<std::unique_ptr<data::TraceReader>> readers;
  analysis::FigureInput input;
  input.classes = RulesOf(arguments.classes);
  if (!arguments.runs.empty() && !maker->info().of_runs)
    throw UsageError({.field = "runs",
                      .problem = "the figure " + arguments.figure + " shows no measured runs",
                      .remedy = "leave them out"});
  input.max_rows = arguments.max_rows;
  input.num_threads = arguments.num_threads;
  input.stop = StopOnInterrupt();
  const std::vector<std::string> names = NamesOfTraces(arguments.traces);
  for (const std::string& path : arguments.traces) {
    readers.push_back(std::make_unique<data::TraceReader>(path));
    CheckQueryRows(*readers.back());
    input.traces.push_back({readers.back().get(), names[input.traces.size()],
                            ParseHeads(arguments.heads, analysis::RecordedHeads(*readers.back()))});
  }
  for (size_t file = 0; file < arguments.runs.size(); ++file)
    input.num_other_runs += AssignRuns(analysis::ReadComparison(arguments.runs[file]), file, &input.traces);
  analysis::Figure figure;
  {
    ProgressLine line(arguments.quiet);
    input.progress = [&](double share) {
      line.Show("computing", std::lround(100 * share), 100, ProgressUnit::kPercent);
    };
    figure = analysis::MakeFigure(*maker, input);
  }
  const auto [width, height] =
      size.value_or(std::pair{analysis::kFigureWidth, analysis::FigureHeight(figure, analysis::kFigureWidth)});
  std::vector<std::string> models;
  for (const auto& reader : readers) models.push_back(reader->layout().model.name);
  WriteFigureFile(figure, width, height, look, arguments.output, arguments.force,
                  OriginColumns(OriginOf(arguments.traces, models)));
  return kDone;
}

// "1e-6:1" as log2.
analysis::ValueRange ParseValueRange(const std::string& text) {
  const size_t colon = text.find(':');
  analysis::ValueRange range;
  const auto end = [&](const std::string& number, float* log2) {
    double value = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool whole = !number.empty() && read.ec == std::errc() && read.ptr == number.data() + number.size();
    *log2 = whole && value > 0 && value <= 1 ? static_cast<float>(std::log2(value)) : 1;
    return *log2 <= 0;
  };
  if (colon == std::string::npos || !end(text.substr(0, colon), &range.minimum_log2) ||
      !end(text.substr(colon + 1), &range.maximum_log2) || !(range.minimum_log2 < range.maximum_log2)) {
    throw UsageError({.field = "range",
                      .value = Quoted(text),
                      .problem = "it is not a range of probabilities",
                      .remedy = "give two above 0 and up to 1, the smaller first, such as 1e-6:1"});
  }
  return range;
}

// The mask of a method on a head, which is `typed` in `field`.
std::unique_ptr<const MapMask> MaskOf(const data::TraceReader& trace, const analysis::HeadTensorsPtr& head,
                                      const RenderArguments& arguments, const std::string& typed,
                                      const std::string& field, const std::stop_token& stop) {
  const MethodChoice choice = ParseMethod(typed, field);
  CheckMethodIsOfModel(choice.name, trace);
  const MapSteps steps = {.alone = ParseMeasure(arguments.measure) == analysis::Measure::kHead,
                          .num_rows = arguments.decode_rows};
  return MakeMapMask(trace, head, choice, steps, arguments.trace + ", head " + HeadText(head->id) + ", " + choice.name,
                     stop);
}

analysis::HeadId OneHead(const std::string& text, const data::TraceReader& trace, const std::string& field) {
  const std::vector<analysis::HeadId> chosen = ParseHeads(text, analysis::RecordedHeads(trace), field);
  if (chosen.size() != 1) {
    throw UsageError({.field = field,
                      .value = Quoted(text),
                      .problem = "it must choose one head",
                      .remedy = "write layer:head, such as 4:3"});
  }
  return chosen.front();
}

void CheckView(const RenderArguments& arguments, analysis::ViewKind view) {
  using analysis::ViewKind;
  const bool of_mask = view != ViewKind::kScores && view != ViewKind::kOther;
  if (of_mask && arguments.method.empty())
    throw UsageError({.field = "view", .value = arguments.view, .problem = "it needs --method, whose mask it shows"});
  if (view == ViewKind::kOverlap && arguments.other_method.empty())
    throw UsageError({.field = "view",
                      .value = arguments.view,
                      .problem = "it needs --other-method, whose mask is compared with that of --method"});
  if (view == ViewKind::kOther && arguments.other_trace.empty() && arguments.other_head.empty())
    throw UsageError({.field = "view",
                      .value = arguments.view,
                      .problem = "it needs --other TRACE, --other-head L:H or both: what is compared with the head"});
  if (view != ViewKind::kOverlap && !arguments.other_method.empty())
    throw UsageError({.field = "other-method", .problem = "it is for --view overlap, which compares two masks"});
  if (view != ViewKind::kOther && !(arguments.other_trace.empty() && arguments.other_head.empty()))
    throw UsageError({.field = arguments.other_trace.empty() ? "other-head" : "other",
                      .problem = "it is for --view other, which compares two heads"});
}

int RunRender(RenderArguments arguments) {
  if (arguments.list_figures) {
    WriteText(FigureTable(), "", false);
    return kDone;
  }
  if (arguments.traces.empty()) throw UsageError({.problem = "a TRACE is missing", .remedy = "name the one to draw"});
  if (arguments.output.empty())
    throw UsageError({.field = "output", .problem = "it is missing", .remedy = "name the picture to write"});
  if (!arguments.figure.empty()) return RunFigure(arguments);
  if (arguments.head.empty())
    throw UsageError(
        {.problem = "nothing is named to draw", .remedy = "give --head L:H for a head's map, or --figure NAME"});
  if (arguments.traces.size() > 1)
    throw UsageError({.problem = "a map shows one trace", .remedy = "only a figure takes several (--figure)"});
  arguments.trace = arguments.traces.front();
  using analysis::ViewKind;
  analysis::RenderRequest request;
  request.view = OneOf<ViewKind>(arguments.view, "view",
                                 {{"scores", ViewKind::kScores},
                                  {"overlay", ViewKind::kOverlay},
                                  {"lost", ViewKind::kLost},
                                  {"mask", ViewKind::kMask},
                                  {"difference", ViewKind::kDifference},
                                  {"other", ViewKind::kOther},
                                  {"overlap", ViewKind::kOverlap}});
  request.reduction = OneOf<analysis::TileReduction>(
      arguments.reduction, "reduction",
      {{"max", analysis::TileReduction::kMax}, {"mean", analysis::TileReduction::kMean}});
  request.logarithmic = OneOf<bool>(arguments.scale, "scale", {{"log", true}, {"linear", false}});
  request.dark_ground = OneOf<bool>(arguments.ground, "ground", {{"light", false}, {"dark", true}});
  if (analysis::FindColorMap(arguments.color_map) == nullptr) {
    throw UsageError({.field = "color-map",
                      .problem = Quoted(arguments.color_map) + " is not known",
                      .remedy = "choose from " + Listed(analysis::ColorMaps(), &analysis::ColorMap::name)});
  }
  request.color_map = arguments.color_map;
  request.profiles = arguments.profiles;
  if (!arguments.range.empty()) request.range = ParseValueRange(arguments.range);
  FormatOfOutput(arguments.output, std::array{FileFormat::kPng, FileFormat::kSvg, FileFormat::kPdf});
  CheckOutputTarget(arguments.output, arguments.force, {arguments.trace, arguments.other_trace});
  std::tie(request.width, request.height) = ParseSize(arguments.size.empty() ? "800x800" : arguments.size, "size");
  CheckView(arguments, request.view);

  const data::TraceReader trace(arguments.trace);
  const analysis::HeadId id = OneHead(arguments.head, trace, "head");
  CheckQueryRows(trace);
  UseDevice(arguments.device);
  const bool alone = arguments.method.empty() && arguments.other_method.empty();  // no method, which would be causal
  const analysis::HeadTensorsPtr head =
      alone ? analysis::LoadHeadForMap(trace, id, arguments.device) : analysis::LoadHead(trace, id, arguments.device);
  HeadNotes notes;
  notes.Look(*head, trace);
  std::tie(request.row_begin, request.row_end) = ParseRange(arguments.rows, head->num_rows, "rows");
  std::tie(request.column_begin, request.column_end) = ParseRange(arguments.columns, head->num_tokens, "cols");

  const std::stop_token stop = StopOnInterrupt();
  analysis::RenderSources sources;
  sources.source = MapSourceOf(trace);
  sources.answers = AnswersOf(trace);
  std::unique_ptr<const MapMask> mask, other_mask;
  if (!arguments.method.empty()) mask = MaskOf(trace, head, arguments, arguments.method, "method", stop);
  if (!arguments.other_method.empty())
    other_mask = MaskOf(trace, head, arguments, arguments.other_method, "other-method", stop);
  if (mask != nullptr) AddMasks(*mask, other_mask.get(), stop, &sources);
  analysis::HeadTensorsPtr other;
  if (request.view == ViewKind::kOther) {
    const data::TraceReader beside(arguments.other_trace.empty() ? arguments.trace : arguments.other_trace);
    const std::string of = arguments.other_head.empty() ? arguments.head : arguments.other_head;
    other = analysis::LoadHeadForMap(beside, OneHead(of, beside, "other-head"), arguments.device);
    notes.Look(*other, beside);
    sources.other = other.get();
    if (!arguments.other_trace.empty()) sources.other_trace = MapSourceOf(beside).trace;
  }
  OutputFile output(arguments.output, arguments.force);
  NamedDevice device = NamedCpu();
  {
    ProgressLine line(arguments.quiet);
    request.progress = [&](double share) {
      line.Show("drawing", std::lround(100 * share), 100, ProgressUnit::kPercent);
    };
    request.stop = stop;
    output.Write([&](const std::string& path) { device = analysis::DrawHeadMap(*head, sources, request, path); });
  }
  notes.Print();
  if (arguments.device.is_gpu() && head->gpu != nullptr) {
    Say(arguments.output + ": " +
        (device.is_gpu()
             ? "computed on " + device.name
             : "computed on the CPU, like all masks and differences, and whatever does not fit in the GPU's memory"));
  }
  output.Commit();
  return kDone;
}

}  // namespace

void AddRenderCommand(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("render", "Draw a head's attention map, a method's mask on it, or a figure of a trace");
  auto arguments = std::make_shared<RenderArguments>();
  command->add_option("trace", arguments->traces, "Trace; a figure takes one or more")->type_name("TRACE..");
  command->add_option("--head", arguments->head, "The head of a map, such as 4:3")->type_name("L:H");
  command->add_option("--figure", arguments->figure, "Draw this figure instead of a map; --list-figures lists them")
      ->type_name("NAME");
  command->add_flag("--list-figures", arguments->list_figures, "Print the figures with their sources and stop");
  AddRecordedHeadsOption(command, &arguments->heads);
  AddMaxRowsOption(command, &arguments->max_rows, " for a figure");
  AddClassOptions(command, &arguments->classes);
  command
      ->add_option(
          "--runs", arguments->runs,
          "With --figure intensity: runs of the traces, as compare or the window writes them; each is drawn with the "
          "trace that it names; files that name none (older ones) go with the traces in the order given")
      ->type_name("RUNS.json|.csv")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--view", arguments->view,
                   "scores; overlay (scores, grey where the method drops them); lost (grey where it keeps them); "
                   "mask (share kept); difference (sparse minus dense); other (another head minus this one, of the "
                   "queries that both have); overlap (which "
                   "of two methods keeps what)")
      ->capture_default_str();
  AddMethodOption(command, "--method", &arguments->method, "Method whose mask is shown");
  AddMethodOption(command, "--other-method", &arguments->other_method, "With --view overlap: the second method");
  AddDecodeRowsOption(
      command, &arguments->decode_rows,
      "(as many as the window takes: those that the model generated, or else as many as compare takes)");
  command
      ->add_option("--measure", arguments->measure,
                   "Whose choice a decode method's is: layer (of the recorded heads that share the KV head, as a model "
                   "runs them) or head (of the head by itself)")
      ->capture_default_str()
      ->type_name("layer|head");
  command->add_option("--other", arguments->other_trace, "With --view other: the other head's trace (the same trace)")
      ->type_name("TRACE");
  command->add_option("--other-head", arguments->other_head, "With --view other: the other head (the same head)")
      ->type_name("L:H");
  command
      ->add_option("--rows", arguments->rows,
                   "Query rows begin:end, counted among the recorded ones (all); the axis shows their positions")
      ->type_name("a:b");
  command->add_option("--cols", arguments->columns, "Key columns begin:end (all)")->type_name("a:b");
  AddSizeOption(command, &arguments->size,
                "Size of a map without its axes, in pixels (800x800; two per point in .svg and .pdf), or of a figure, "
                "in points (1000 wide, and as high as its panels need)");
  command->add_option("--reduction", arguments->reduction, "max (keeps thin lines) or mean (keeps mass)")
      ->capture_default_str();
  command->add_option("--scale", arguments->scale, "log or linear")->capture_default_str();
  command
      ->add_option("--range", arguments->range,
                   "Probabilities at the ends of the colour range, such as 1e-6:1 (the picture's own range)")
      ->type_name("LEAST:MOST");
  command
      ->add_option("--color-map", arguments->color_map,
                   "Colour map: " + Listed(analysis::ColorMaps(), &analysis::ColorMapLabel))
      ->capture_default_str();
  command
      ->add_option("--ground", arguments->ground,
                   "Background of a map or figure: light (white, for paper) or dark (like the window)")
      ->capture_default_str();
  command->add_flag("--profiles", arguments->profiles,
                    "Beside the map: what each query spends on the keys in view (and what the method keeps of it), and "
                    "what each key receives; of views of probabilities");
  AddDeviceOption(command, &arguments->device, "a GPU takes heads recorded in bf16 or fp16");
  AddOutputOptions(command, &arguments->output, &arguments->force,
                   "Picture to write: .png, .svg or .pdf; for a figure also its numbers as .json or .csv");
  AddThreadsOption(command, &arguments->num_threads);
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] { action = [=] { return RunRender(*arguments); }; });
}

}  // namespace headscope::app
