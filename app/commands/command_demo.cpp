// SPDX-License-Identifier: Apache-2.0
// headscope demo -o DIR: everything once, without a display: capture, analyse, compare all methods, draw;
// DIR/report.html.
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stop_token>

#include "analysis/head_sweeps.h"
#include "analysis/report.h"
#include "base/check_status.h"
#include "base/stop.h"
#include "capture/capture.h"
#include "choices/head_results.h"
#include "choices/head_selection.h"
#include "choices/method_choice.h"
#include "choices/torch_decode.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "data/trace_reader.h"
#include "eval/tasks.h"
#include "kernels/start_cores.h"
#include "model/model_session.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/listed.h"
#include "support/output_file.h"
#include "support/output_folder.h"
#include "support/paths.h"
#include "support/progress_line.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

namespace fs = std::filesystem;
// One of every class that a head of a whole trace may have.
constexpr size_t kNumPictures = analysis::kHeadClasses.size() - 1;

struct DemoArguments {
  std::string model_dir, output_dir, task = eval::TaskNames().front();
  int64_t length = 4096;
  uint64_t seed = 1;
  int32_t repeats = 5, threads = 0;
  bool force = false, quiet = false;
};

// "Intel(R) Xeon(R) ..., 2 threads, Linux, 2026-11-21".
std::string Environment(int32_t threads) {
  std::string cpu = "unknown CPU";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      cpu = line.substr(line.find(':') + 2);
      break;
    }
  }
  if (threads == 0) threads = kernels::NumAllowedCores();
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::tm utc{};
  std::strftime(date, sizeof date, "%Y-%m-%d", ::gmtime_r(&now, &utc));
  return cpu + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") + ", " + date;
}

// Heads that differ most: the clearest of each class first, then those that are the clearest of whatever class.
std::vector<const analysis::HeadStatistics*> ChooseHeads(const std::vector<analysis::HeadStatistics>& all) {
  std::vector<const analysis::HeadStatistics*> chosen;
  const auto take = [&](const analysis::MetricInfo& metric, std::optional<analysis::HeadClass> of_class) {
    const analysis::HeadStatistics* best = nullptr;
    for (const analysis::HeadStatistics& head : all) {
      if (of_class && head.head_class != *of_class) continue;
      if (std::find(chosen.begin(), chosen.end(), &head) != chosen.end()) continue;
      if (best == nullptr || analysis::MetricValue(head, metric.name) > analysis::MetricValue(*best, metric.name))
        best = &head;
    }
    if (best != nullptr && chosen.size() < kNumPictures) chosen.push_back(best);
  };
  const analysis::MetricInfo* of_any = &analysis::Metrics().front();
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    if (metric.clearest_of == analysis::HeadClass::kUnknown) of_any = &metric;
    if (metric.clearest_of && metric.clearest_of != analysis::HeadClass::kUnknown) take(metric, metric.clearest_of);
  }
  while (chosen.size() < std::min(kNumPictures, all.size())) take(*of_any, {});
  return chosen;
}

constexpr const char* kTraceName = "trace.h5";
constexpr const char* kStatisticsName = "statistics.json";
constexpr const char* kComparisonName = "comparison.csv";
constexpr const char* kReportName = "report.html";

std::string PictureName(analysis::HeadId id) {
  return "head-" + std::to_string(id.layer) + "-" + std::to_string(id.head) + ".png";
}

std::string PathOf(const DemoArguments& arguments, const std::string& name) {
  return (fs::path(arguments.output_dir) / name).string();
}

// Refuses before the long work what would end it: a model whose heads no method runs on, and what stands where a file
// will be written. Which heads get a picture is not known yet, so that no head may have one.
void CheckBeforehand(const DemoArguments& arguments) {
  const std::string model_dir = ModelDirOrShipped(arguments.model_dir);
  const model::CheckpointSummary model = model::ReadCheckpointSummary(model_dir, /*with_hash=*/false);
  CheckMethodsRun(model.head_dim, model_dir);
  for (const char* name : {kTraceName, kStatisticsName, kComparisonName, kReportName}) {
    CheckOutputTarget(PathOf(arguments, name), arguments.force);
  }
  for (int32_t layer = 0; layer < model.num_layers; ++layer) {
    for (int32_t head = 0; head < model.num_qo_heads; ++head)
      CheckOutputTarget(PathOf(arguments, PictureName({layer, head})), arguments.force);
  }
}

std::string CaptureDemoTrace(const DemoArguments& arguments, const std::stop_token& stop, ProgressLine& line) {
  capture::CaptureRequest request;
  request.model_dir = ModelDirOrShipped(arguments.model_dir);
  request.task = arguments.task;
  request.task_length = arguments.length;
  request.task_seed = arguments.seed;
  request.prose_path = ProsePath();
  request.decode_tokens = 16;
  // What methods ask for that they are to be compared by.
  request.record = {model::CapturePoint::kPreRope, model::CapturePoint::kValueNormsL1};
  request.num_threads = arguments.threads;
  request.output_path = PathOf(arguments, kTraceName);
  request.overwrite = arguments.force;
  capture::Capture(
      request, [&](const Progress& progress) { line.Show(progress); }, stop);
  return request.output_path;
}

int RunDemo(const DemoArguments& arguments) {
  const OutputFolder folder("output", arguments.output_dir);
  CheckBeforehand(arguments);
  const std::stop_token stop = StopOnInterrupt();
  ProgressLine line(arguments.quiet);

  const std::string trace_path = CaptureDemoTrace(arguments, stop, line);
  StopIfAsked(stop);  // the shorter trace stays
  const data::TraceReader trace(trace_path);
  const std::vector<analysis::HeadId> heads = analysis::RecordedHeads(trace);

  analysis::ReportInput report;
  report.title = trace.layout().model.name + ", " + trace.layout().prompt_source + ", " +
                 std::to_string(trace.num_tokens()) + " tokens";
  report.trace_path = fs::path(trace_path).filename().string();
  report.environment = Environment(arguments.threads);
  analysis::SweepOptions sweep;
  sweep.num_threads = arguments.threads;
  sweep.stop = stop;
  sweep.progress = [&](const analysis::SweepProgress& at) {
    line.Show("analysing", static_cast<int64_t>(at.done), static_cast<int64_t>(at.total), ProgressUnit::kHeads);
  };
  const kernels::Status analysed = analysis::SweepStatistics(trace, heads, kCpu, {}, sweep, {}, &report.statistics);
  CheckStatus(analysed, trace_path);

  const std::vector<const analysis::HeadStatistics*> chosen = ChooseHeads(report.statistics);
  const std::vector<MethodChoice> choices = DemonstrationMethods(trace.num_tokens());
  report.results_note = DemonstrationNote(trace.num_tokens());
  analysis::ComparisonSweep comparison;
  for (const MethodChoice& choice : choices) comparison.methods.push_back({choice.name, choice.values});
  comparison.options.repeats = arguments.repeats;
  comparison.options.num_threads = arguments.threads;
  std::vector<analysis::HeadId> compared;
  for (const analysis::HeadStatistics* statistics : chosen) {
    const analysis::HeadTensorsPtr head = analysis::LoadHead(trace, statistics->id);
    const std::string name = PictureName(statistics->id);
    OutputFile picture(PathOf(arguments, name), arguments.force);
    picture.Write([&](const std::string& path) { analysis::DrawHeadMap(*head, {}, {}, path); });
    picture.Commit();
    report.pictures.push_back(
        {statistics->id, std::string(analysis::HeadClassName(statistics->head_class)) + ": " + statistics->class_reason,
         name});
    compared.push_back(statistics->id);
  }
  // LibTorch has captured the trace, so its dense decode is at hand.
  comparison.options.other_dense = TorchDecode(arguments.threads);
  sweep.progress = ShowComparing(&line);
  std::map<std::string, std::string> left_out;  // each once, with the first reason
  comparison.left_out = [&](const analysis::AskedMethod& method, const std::string& /*where*/,
                            const kernels::Status& why) { left_out.emplace(method.name, why.message()); };
  const kernels::Status measured = analysis::SweepComparisons(trace, compared, comparison, sweep, &report.results);
  CheckStatus(measured);
  for (const auto& [method, why] : left_out)
    report.results_note += " Without " + method + " where it does not run: " + why + ".";

  const analysis::RunOrigin origin = OriginOf(trace);
  report.written = WrittenText(origin);
  for (analysis::MethodResult& result : report.results) result.origin = origin;
  WriteResults(report.statistics, origin, PathOf(arguments, kStatisticsName), arguments.force);
  WriteResults(report.results, PathOf(arguments, kComparisonName), arguments.force);
  const std::string html = PathOf(arguments, kReportName);
  WriteText(analysis::ReportHtml(report), html, arguments.force);
  WriteText(html + "\n", "", false);
  return kDone;
}

}  // namespace

void AddDemoCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "demo", "Capture, analyse, compare all methods and draw, without a display; writes DIR/report.html");
  auto arguments = std::make_shared<DemoArguments>();
  AddOutputOptions(command, &arguments->output_dir, &arguments->force, "Folder to write to; created if missing", "DIR")
      ->required();
  command->add_option("--model", arguments->model_dir, "Checkpoint folder (the shipped model)")->type_name("MODEL_DIR");
  AddTaskOption(command, &arguments->task, "Prompt: " + Listed(eval::TaskNames()))->capture_default_str();
  AddTaskLengthOption(command, &arguments->length);
  AddSeedOption(command, &arguments->seed, "Seed of the task");
  AddRepeatOption(command, &arguments->repeats);
  AddThreadsOption(command, &arguments->threads);
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] { action = [=] { return RunDemo(*arguments); }; });
}

}  // namespace headscope::app
