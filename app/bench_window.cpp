// SPDX-License-Identifier: Apache-2.0
#include "commands/bench_window.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "analysis/types/number_text.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "bench/window_trace.h"
#include "kernels/spec_names.h"
#include "kernels/start_cores.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/output_file.h"
#include "support/paths.h"
#include "support/progress_line.h"
#include "ui/window_bench.h"
#include "window.h"
#include "workbench/trace_workbench.h"

namespace headscope::app {
namespace {

using Json = nlohmann::ordered_json;
using analysis::FormatNumber;

Json ToJson(const ui::Times& times) {
  Json json = {{"count", times.ms.size()}};
  if (times.ms.empty()) return json;
  json["median_ms"] = times.Quantile(0.5);
  json["p95_ms"] = times.Quantile(0.95);
  json["max_ms"] = times.Quantile(1);
  return json;
}

std::string ReportJson(const std::string& trace, const WindowBenchArguments& arguments,
                       const ui::WindowBenchResult& result) {
  Json json;
  json["schema"] = "headscope-window-bench-1";
  json["complete"] = result.complete;
  json["renderer"] = result.renderer;
  json["cores"] = kernels::NumAllowedCores();
  json["width"] = arguments.width;
  json["height"] = arguments.height;
  json["trace"] = {{"path", trace},
                   {"tokens", result.num_tokens},
                   {"rows", result.num_rows},
                   {"heads", result.num_heads},
                   {"head_dim", result.head_dim}};
  json["window_ms"] = result.window_ms;
  json["opened_ms"] = result.opened_ms;
  json["first_picture_ms"] = result.picture_ms;
  json["settled_ms"] = result.settled_ms;
  json["panning"] = Json::array();
  for (const ui::PanTimes& pan : result.pans) {
    json["panning"].push_back({{"scores_per_pixel", pan.scores_per_pixel},
                               {"level", pan.level},
                               {"frames", ToJson(pan.frames)},
                               {"tiles", ToJson(pan.tiles)}});
  }
  json["live"] = Json::array();
  for (const ui::LiveTimes& live : result.live) {
    json["live"].push_back({{"method", live.method},
                            {"phase", kernels::NameOf(live.phase)},
                            {"parameter", live.parameter},
                            {"masks", ToJson(live.masks)},
                            {"maps", ToJson(live.maps)}});
    if (!live.refusal.empty()) json["live"].back()["refused"] = live.refusal;
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Ms(const ui::Times& times, double share) {
  return times.ms.empty() ? "-" : FormatNumber("%.1f", times.Quantile(share));
}

std::string Slider(const ui::LiveTimes& live) {
  // Baselines aside, a name may be in both phases.
  return live.method + (live.phase == kernels::Phase::kDecode ? " (decode), " : ", ") + live.parameter;
}

std::string ReportTable(const std::string& trace, const WindowBenchArguments& arguments,
                        const ui::WindowBenchResult& result) {
  std::ostringstream out;
  out << trace << ": " << result.num_tokens << " tokens, " << result.num_rows << " rows, " << result.num_heads
      << " heads of size " << result.head_dim << "; " << arguments.width << " x " << arguments.height << ", "
      << result.renderer << '\n';
  out << "window " << FormatNumber("%.0f", result.window_ms) << " ms; trace opened "
      << FormatNumber("%.0f", result.opened_ms) << ", first picture " << FormatNumber("%.0f", result.picture_ms)
      << ", all tiles " << FormatNumber("%.0f", result.settled_ms) << " ms after its opening\n\n";
  const auto column = [&out](int width) -> std::ostream& { return out << std::right << std::setw(width); };
  out << std::left << std::setw(24) << "panning at";
  for (const char* name : {"frames", "median ms", "p95 ms", "tiles", "median ms", "p95 ms"}) column(11) << name;
  out << '\n';
  for (const ui::PanTimes& pan : result.pans) {
    out << std::left << std::setw(24)
        << FormatNumber("%.2f", pan.scores_per_pixel) + " keys/px, level " + std::to_string(pan.level);
    column(11) << pan.frames.ms.size();
    column(11) << Ms(pan.frames, 0.5);
    column(11) << Ms(pan.frames, 0.95);
    column(11) << pan.tiles.ms.size();
    column(11) << Ms(pan.tiles, 0.5);
    column(11) << Ms(pan.tiles, 0.95);
    out << '\n';
  }
  if (result.live.empty()) return out.str();
  out << '\n' << std::left << std::setw(40) << "a step of a slider";
  for (const char* name : {"steps", "mask ms", "p95 ms", "map ms", "p95 ms"}) column(10) << name;
  out << '\n';
  for (const ui::LiveTimes& live : result.live) {
    out << std::left << std::setw(40) << Slider(live);
    column(10) << live.maps.ms.size();
    if (live.maps.ms.empty()) {
      out << "  " << live.refusal << '\n';
      continue;
    }
    column(10) << Ms(live.masks, 0.5);
    column(10) << Ms(live.masks, 0.95);
    column(10) << Ms(live.maps, 0.5);
    column(10) << Ms(live.maps, 0.95);
    out << '\n';
  }
  return out.str();
}

// A folder of its own, which goes with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "headscope-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw FailedError({.file = name, .problem = "cannot be made", .remedy = "name another folder with TMPDIR"});
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string File(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

int BenchWindow(const WindowBenchArguments& arguments) {
  CheckDisplay();
  std::string trace = arguments.trace.empty() ? ShippedTracePath() : arguments.trace;
  if (!arguments.output.empty()) {
    FormatOfOutput(arguments.output, std::array{FileFormat::kJson});
    CheckOutputTarget(arguments.output, arguments.force, {trace});
  }
  const std::stop_token stop = StopOnInterrupt();
  ui::WindowBenchOptions options;
  options.trace = trace;
  std::optional<TemporaryFolder> folder;
  if (!arguments.synthetic.empty()) {
    const bench::SyntheticTraceShape shape = bench::ParseSyntheticTrace(arguments.synthetic);
    folder.emplace();
    options.trace = folder->File("synthetic.h5");
    trace = bench::SyntheticTraceName(shape);
    ProgressLine line(arguments.quiet);
    const auto show = [&](double share) {
      line.Show("making the trace", static_cast<int64_t>(100 * share), 100, ProgressUnit::kPercent);
    };
    bench::WriteSyntheticTrace(options.trace, shape, show, stop);
  }
  options.width = arguments.width;
  options.height = arguments.height;
  options.pan_seconds = arguments.pan_seconds;
  options.live_steps = arguments.live_steps;
  ui::WindowBenchResult result;
  {
    ProgressLine line(arguments.quiet);
    options.stop = stop;
    options.progress = [&](const std::string& stage) { line.Show(stage, 0, 1, ProgressUnit::kPercent); };
    // No statistics from a cache: the first picture is that of a trace never seen before.
    const WorkbenchOptions workbench{.share_dir = ShareDir(), .cache_dir = {}};
    result = ui::RunWindowBench(options,
                                [&](ui::PostFunction post) { return MakeTraceWorkbench(workbench, std::move(post)); });
  }
  if (!result.error.empty()) throw FailedError(result.error);
  WriteText(ReportTable(trace, arguments, result), "", false);
  if (!arguments.output.empty()) WriteText(ReportJson(trace, arguments, result), arguments.output, arguments.force);
  return stop.stop_requested() ? kInterrupted : kDone;
}

}  // namespace headscope::app
