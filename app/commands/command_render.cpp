// SPDX-License-Identifier: Apache-2.0
// headscope render TRACE --head L:H [--view scores|mask|difference] [--rows a:b] [--cols a:b] [--size WxH] -o OUT.png
#include <cmath>
#include <memory>
#include <stop_token>

#include "analysis/compare.h"
#include "analysis/report.h"
#include "analysis/types/color_map.h"
#include "base/check_status.h"
#include "base/device.h"
#include "base/errors.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/device_choice.h"
#include "commands/head_notes.h"
#include "commands/head_results.h"
#include "commands/head_selection.h"
#include "commands/method_choice.h"
#include "data/trace_reader.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/listed.h"
#include "support/messages.h"
#include "support/output_file.h"
#include "support/progress_line.h"

namespace headscope::app {
namespace {

struct RenderArguments {
  std::string trace, head, view = "scores", rows, columns, size = "800x800", reduction = "max", scale = "log",
                           color_map = "inferno", ground = "light", method, output;
  Device device = kCpu;
  bool force = false, quiet = false;
};

template <typename T>
T OneOf(const std::string& value, const std::string& option, std::initializer_list<std::pair<const char*, T>> choices) {
  for (const auto& [name, result] : choices) {
    if (value == name) return result;
  }
  throw UsageError(option + " '" + value + "' is not known; choose from " +
                   Listed(choices, &std::pair<const char*, T>::first));
}

int RunRender(const RenderArguments& arguments) {
  using analysis::ViewKind;
  analysis::RenderRequest request;
  request.view = OneOf<ViewKind>(
      arguments.view, "--view",
      {{"scores", ViewKind::kScores}, {"mask", ViewKind::kMask}, {"difference", ViewKind::kDifference}});
  request.reduction = OneOf<analysis::TileReduction>(
      arguments.reduction, "--reduction",
      {{"max", analysis::TileReduction::kMax}, {"mean", analysis::TileReduction::kMean}});
  request.logarithmic = OneOf<bool>(arguments.scale, "--scale", {{"log", true}, {"linear", false}});
  request.dark_ground = OneOf<bool>(arguments.ground, "--ground", {{"light", false}, {"dark", true}});
  if (analysis::FindColorMap(arguments.color_map) == nullptr) {
    throw UsageError("--color-map '" + arguments.color_map + "' is not known; choose from " +
                     Listed(analysis::ColorMaps(), &analysis::ColorMap::name));
  }
  request.color_map = arguments.color_map;
  const std::string extension = Extension(arguments.output);
  if (extension != "png") throw UsageError(OutputFault(arguments.output, "the extension must be .png"));
  CheckOutputTarget(arguments.output, arguments.force, {arguments.trace});
  std::tie(request.width, request.height) = ParseSize(arguments.size, "--size");
  if (request.view != ViewKind::kScores && arguments.method.empty())
    throw UsageError("--view " + arguments.view + " needs --method, whose mask it shows");

  const data::TraceReader trace(arguments.trace);
  const std::vector<analysis::HeadId> chosen = ParseHeads(arguments.head, analysis::RecordedHeads(trace), "--head");
  if (chosen.size() != 1) throw UsageError("--head '" + arguments.head + "' must choose one head, such as 4:3");
  CheckQueryRows(trace);
  const analysis::HeadTensorsPtr head = analysis::LoadHead(trace, chosen.front(), UseDeviceForHeads(arguments.device));
  HeadNotes notes;
  notes.Look(*head, trace);
  std::tie(request.row_begin, request.row_end) = ParseRange(arguments.rows, head->num_rows, "--rows");
  std::tie(request.column_begin, request.column_end) = ParseRange(arguments.columns, head->num_tokens, "--cols");

  const std::stop_token stop = StopOnInterrupt();
  analysis::MaskPreview preview;
  kernels::SparseIndexView view;
  const kernels::SparseIndexView* index = nullptr;
  analysis::ImageRgb image;
  if (!arguments.method.empty()) {
    const MethodChoice choice = ParseMethod(arguments.method);
    if (choice.prefill == nullptr)
      throw UsageError("--method " + arguments.method +
                       " is a decode method and has no map to draw; choose a prefill method");
    CheckStatus(analysis::PreviewMask(*head, *choice.prefill, choice.values, 0, stop, &preview),
                arguments.trace + ", head " + HeadText(head->id) + ", " + choice.name);
    view = preview.index->View();
    index = &view;
  }
  {
    ProgressLine line(arguments.quiet);
    request.progress = [&](double share) { line.Show("drawing", std::lround(100 * share), 100, "%"); };
    request.stop = stop;
    image = analysis::RenderHead(*head, index, request);
  }
  if (stop.stop_requested()) return kInterrupted;
  notes.Print();
  if (arguments.device.is_gpu() && head->gpu != nullptr) {
    Say(arguments.output + ": " +
        (image.device != "cpu"
             ? "computed on " + image.device
             : "computed on the CPU, as masks and differences are, and what the GPU has no memory for"));
  }
  OutputFile output(arguments.output, arguments.force);
  output.Write([&](const std::string& path) { analysis::WritePng(image, path); });
  output.Commit();
  return kDone;
}

}  // namespace

void AddRenderCommand(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("render", "Draw a head's attention map, or a method's mask on it, to a picture");
  auto arguments = std::make_shared<RenderArguments>();
  command->add_option("trace", arguments->trace, "Trace")->required()->type_name("TRACE");
  command->add_option("--head", arguments->head, "The head, such as 4:3")->required()->type_name("L:H");
  command->add_option("--view", arguments->view, "scores, mask or difference")->capture_default_str();
  command->add_option("--method", arguments->method, "Method whose mask is shown")->type_name("NAME[:k=v,..]");
  command
      ->add_option("--rows", arguments->rows,
                   "Query rows begin:end, counted among the recorded ones (all); the axis shows their positions")
      ->type_name("a:b");
  command->add_option("--cols", arguments->columns, "Key columns begin:end (all)")->type_name("a:b");
  command->add_option("--size", arguments->size, "Pixels of the map, without its axes")->capture_default_str();
  command->add_option("--reduction", arguments->reduction, "max (keeps thin lines) or mean (keeps mass)")
      ->capture_default_str();
  command->add_option("--scale", arguments->scale, "log or linear")->capture_default_str();
  command
      ->add_option("--color-map", arguments->color_map,
                   "Colour map: " + Listed(analysis::ColorMaps(), &analysis::ColorMap::name))
      ->capture_default_str();
  command->add_option("--ground", arguments->ground, "light (white, for paper) or dark (as the window): around the map")
      ->capture_default_str();
  AddDeviceOption(command, &arguments->device, "a GPU takes heads recorded in bf16 or fp16");
  AddOutputOptions(command, &arguments->output, &arguments->force, "Picture to write (.png)")->required();
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] { action = [=] { return RunRender(*arguments); }; });
}

}  // namespace headscope::app
