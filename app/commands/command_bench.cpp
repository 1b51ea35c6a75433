// SPDX-License-Identifier: Apache-2.0
// headscope bench [--device cpu|cuda|cuda:N] [--lengths ..] [--methods ..] [--index FILE] [--save-index DIR] [-o
// OUT.json]
// headscope bench --gui [--trace TRACE] [--size WxH] [-o OUT.json]
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/device.h"
#include "base/element_type.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "base/quoted_text.h"
#include "bench/runner.h"
#include "bench/workload.h"
#include "choices/device_choice.h"
#include "choices/head_selection.h"
#include "commands/bench_window.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/option_checks.h"
#include "support/output_file.h"
#include "support/output_folder.h"
#include "support/progress_line.h"

namespace headscope::app {
namespace {

struct BenchArguments {
  Device device = kCpu;
  std::string heads, dtype, data, output, save_folder;
  std::vector<int32_t> lengths;
  std::vector<std::string> methods, index_files;
  int32_t head_dim = 0, batch = 1, repeats = 7, threads = 0;
  double sustained = 0;
  uint64_t seed = 1;
  bool force = false, quiet = false;
  bool gui = false;
  std::string size;
  WindowBenchArguments window;
};

// What a device is asked to do when nothing else is said: on a CPU, the same in seconds.
struct Defaults {
  std::vector<int32_t> lengths;
  std::vector<std::string> methods;
  const char* heads;
  ElementType dtype;
  int32_t head_dim;
  int64_t product_rows;
  int64_t copy_bytes;
};

// SparQ's mean value stands for the tokens that it leaves out, and knows no sink.
const std::vector<std::string> kDecodeSteps = {"decode/dense", "sparq"};
const std::vector<std::string> kDecodeStepsWithSinks = {"decode/dense", "sparq:reallocate=0"};

Defaults DefaultsOf(bool on_gpu) {
  if (on_gpu) {
    return {
        .lengths = {8192, 16384, 32768, 65536, 131072},
        .methods = {"dense", "blocks-90", "vertical-slash-1000x4096", "a-shape-1024+4096", "s2-l1v15", "vertical-slash",
                    "vertical-slash:n_vertical=500,n_slash=700", "block-sparse", "sample-attention"},
        .heads = "32:32",
        .dtype = ElementType::kBFloat16,
        .head_dim = 128,
        .product_rows = 8192,
        .copy_bytes = int64_t{1} << 30};
  }
  return {.lengths = {2048, 4096},
          .methods = {"dense", "blocks-90", "vertical-slash-64x512", "a-shape-64+512", "s2-l1v15",
                      "vertical-slash:n_vertical=64,n_slash=256", "block-sparse:n_blocks=8", "sample-attention"},
          .heads = "8:4",
          .dtype = ElementType::kFloat32,
          .head_dim = 64,
          .product_rows = 2048,
          .copy_bytes = int64_t{256} << 20};
}

// "32:8", or "32" for as many KV heads.
void ParseHeadCounts(const std::string& text, kernels::SeededProblem* shape) {
  constexpr int32_t kMostHeads = 4096;
  const auto parse = [](std::string_view digits) {  // 0: not a number of heads
    int32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : 0;
  };
  const size_t colon = text.find(':');
  const int32_t query = parse(std::string_view(text).substr(0, colon));
  const int32_t kv = colon == std::string::npos ? query : parse(std::string_view(text).substr(colon + 1));
  if (query < 1 || query > kMostHeads || kv < 1 || query % kv != 0) {
    throw UsageError({.field = "heads",
                      .value = Quoted(text),
                      .problem = "give query heads (1 to " + std::to_string(kMostHeads) +
                                 ") and KV heads, such as 32:8, the first a multiple of the second"});
  }
  shape->num_qo_heads = query;
  shape->num_kv_heads = kv;
}

// What a trace says of a problem, and what may be said besides.
void SetTrace(const BenchArguments& arguments, bool on_gpu, bench::Group* group, std::vector<int32_t>* lengths) {
  const bench::TraceHeads& trace = *group->trace;
  if (!arguments.heads.empty() || arguments.head_dim > 0 || arguments.batch > 1)
    throw UsageError({.field = "data",
                      .value = arguments.data,
                      .problem = "the trace says --heads, --head-dim and --batch",
                      .remedy = "leave them out"});
  if (arguments.dtype.empty() && !(on_gpu && trace.dtype() == kernels::DType::kFloat32)) group->dtype = trace.dtype();
  if (arguments.lengths.empty()) *lengths = {trace.num_tokens()};
  for (const int32_t length : *lengths) {
    if (length > trace.num_tokens()) {
      throw UsageError({.field = "lengths",
                        .value = std::to_string(length),
                        .problem = trace.name() + " has " + std::to_string(trace.num_tokens()) + " tokens",
                        .remedy = "give no more"});
    }
  }
}

// What attention over chosen tokens takes.
void CheckLatent(const std::string& method, const bench::Group& group, bool on_gpu) {
  const auto refuse = [&](const std::string& why, const std::string& remedy) {
    throw UsageError({.field = "methods", .value = method, .problem = why, .remedy = remedy});
  };
  if (!on_gpu) refuse("attention over chosen tokens runs on a GPU", "give --device cuda");
  if (group.dtype != kernels::DType::kBFloat16) refuse("attention over chosen tokens takes bf16", "leave --dtype out");
  if (group.shape.batch > 1) refuse("attention over chosen tokens takes one sequence", "leave --batch out");
  if (group.trace != nullptr || group.shape.data != kernels::SeededData::kSeeded)
    refuse("its tensors are seeded ones", "leave --data out");
}

std::vector<bench::Group> MakeGroups(const BenchArguments& arguments, const Defaults& defaults, bool on_gpu) {
  std::vector<bench::Group> groups;
  const ElementType dtype = arguments.dtype.empty() ? defaults.dtype : ParseElementType(arguments.dtype);
  if (on_gpu && dtype == ElementType::kFloat32) {
    throw UsageError(
        {.field = "dtype",
         .value = "fp32",
         .problem = "cuDNN's dense attention, which the GPU's figures are compared with, takes bf16 and fp16"});
  }
  for (const std::string& path : arguments.index_files) {
    groups.push_back(bench::ReadGroup(path));
    if (!arguments.dtype.empty()) groups.back().dtype = KernelTypeOf<kernels::DType>(dtype);
    if (on_gpu && groups.back().dtype == kernels::DType::kFloat32) {
      throw UsageError({.field = "index",
                        .value = path,
                        .problem = "it is for fp32",
                        .remedy = "give --dtype bf16 or fp16 to run it on a GPU"});
    }
  }
  if (!groups.empty()) return groups;

  bench::Group group;
  group.dtype = KernelTypeOf<kernels::DType>(dtype);
  group.shape.seed = arguments.seed;
  group.shape.batch = arguments.batch;
  group.shape.head_dim = arguments.head_dim > 0 ? arguments.head_dim : defaults.head_dim;
  if (group.shape.head_dim % 8 != 0) {
    throw UsageError({.field = "head-dim",
                      .value = std::to_string(group.shape.head_dim),
                      .problem = "the executors take multiples of 8 from 8 to 256"});
  }
  ParseHeadCounts(arguments.heads.empty() ? defaults.heads : arguments.heads, &group.shape);
  std::vector<int32_t> lengths = arguments.lengths.empty() ? defaults.lengths : arguments.lengths;
  if (!arguments.data.empty()) {
    bench::SetData(arguments.data, &group, on_gpu ? bench::TakenLayers::kPlain : bench::TakenLayers::kAny);
  }
  if (group.trace != nullptr) SetTrace(arguments, on_gpu, &group, &lengths);
  std::vector<std::string> methods = arguments.methods.empty() ? defaults.methods : arguments.methods;
  if (arguments.methods.empty()) {
    const bool sinks = group.trace != nullptr && !group.trace->facts().sinks.empty();
    const std::vector<std::string>& steps = sinks ? kDecodeStepsWithSinks : kDecodeSteps;
    methods.insert(methods.end(), steps.begin(), steps.end());
  }
  for (const std::string& text : bench::SplitMethods(methods)) {
    for (const bench::Workload& other : group.workloads) {
      if (other.name == text) throw UsageError({.field = "methods", .problem = text + " is named twice"});
    }
    group.workloads.push_back(bench::ParseWorkload(text));
    if (group.trace != nullptr) bench::CheckWorkloadIsOfModel(group.workloads.back(), *group.trace);
    if (group.workloads.back().fp8 && !on_gpu)
      throw UsageError({.field = "methods",
                        .value = text,
                        .problem = "attention in FP8 runs on a GPU",
                        .remedy = "give --device cuda"});
    if (group.workloads.back().latent_tokens > 0) CheckLatent(text, group, on_gpu);
  }
  for (const int32_t length : lengths) {
    group.shape.seq_q = group.shape.seq_k = length;
    groups.push_back(group);
  }
  return groups;
}

// Every file that --save-index will write, refused before anything is measured.
void CheckSaveTargets(const BenchArguments& arguments, const std::vector<bench::Group>& groups) {
  for (const bench::Group& group : groups) {
    for (const bench::Workload& workload : group.workloads) {
      if (workload.decode != nullptr || workload.fp8 || workload.latent_tokens > 0) continue;
      const std::string name = bench::IndexFileName(workload, group.shape.seq_k);
      CheckOutputTarget((std::filesystem::path(arguments.save_folder) / name).string(), arguments.force,
                        arguments.index_files);
    }
  }
}

WindowBench& WindowBenchOfThisBuild() {
  static WindowBench bench;
  return bench;
}

int RunWindowBench(const BenchArguments& arguments) {
  if (!WindowBenchOfThisBuild())
    throw UsageError({.field = "gui",
                      .problem = "this build has no window (preset headless)",
                      .remedy = "build the preset release"});
  WindowBenchArguments of_window = arguments.window;
  if (!arguments.size.empty()) std::tie(of_window.width, of_window.height) = ParseSize(arguments.size, "size");
  of_window.output = arguments.output;
  of_window.force = arguments.force;
  of_window.quiet = arguments.quiet;
  return WindowBenchOfThisBuild()(of_window);
}

int RunBench(const BenchArguments& arguments) {
  if (arguments.gui) return RunWindowBench(arguments);
  if (!arguments.output.empty()) {
    FormatOfOutput(arguments.output, std::array{FileFormat::kJson});
    CheckOutputTarget(arguments.output, arguments.force, arguments.index_files);
  }
  const Defaults defaults = DefaultsOf(arguments.device.is_gpu());
  const std::vector<bench::Group> groups = MakeGroups(arguments, defaults, arguments.device.is_gpu());
  std::optional<OutputFolder> save_folder;
  if (!arguments.save_folder.empty()) {
    if (!arguments.data.empty() && arguments.data != "seeded")
      throw UsageError({.field = "save-index", .problem = "index files are for --data seeded alone"});
    save_folder.emplace("--save-index", arguments.save_folder);
    CheckSaveTargets(arguments, groups);
  }

  UseDevice(arguments.device);
  const std::stop_token stop = StopOnInterrupt();
  const bench::DeviceOptions device_options{.num_threads = arguments.threads, .stop = stop};
  const std::unique_ptr<bench::BenchDevice> device =
      arguments.device.is_gpu() ? bench::MakeCudaDevice(device_options) : bench::MakeCpuDevice(device_options);

  ProgressLine line(arguments.quiet);
  bench::RunnerOptions options;
  options.repeats = arguments.repeats;
  options.sustained_seconds = arguments.sustained;
  options.num_threads = arguments.threads;
  options.product_rows = defaults.product_rows;
  options.copy_bytes = defaults.copy_bytes;
  options.stop = stop;
  options.progress = [&](const std::string& stage, int64_t done, int64_t total) {
    line.Show(stage, done, total, ProgressUnit::kRuns);
  };
  if (!arguments.save_folder.empty()) {
    options.save_index = [&](const bench::Group& group, const bench::Workload& workload,
                             const kernels::SparseIndex& index) {
      const std::string name = bench::IndexFileName(workload, group.shape.seq_k);
      OutputFile output((std::filesystem::path(arguments.save_folder) / name).string(), arguments.force);
      data::WriteIndexFile(output.temporary_path(), bench::ToFile(group, workload, index));
      output.Commit();
    };
  }
  const bench::Report report = bench::RunBenchmark(groups, options, *device);
  WriteText(bench::Table(report), "", false);
  if (!arguments.output.empty()) WriteText(bench::Json(report), arguments.output, arguments.force);
  return report.interrupted ? kInterrupted : kDone;
}

}  // namespace

void SetWindowBench(WindowBench bench) {
  WindowBenchOfThisBuild() = std::move(bench);
}

void AddBenchCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "bench", "Time executors and selectors on fixed problems, next to dense attention and the machine's roofline");
  auto arguments = std::make_shared<BenchArguments>();
  auto* gui = command->add_flag("--gui", arguments->gui,
                                "Time the window instead: first picture, frames while panning, tiles, sliders");
  auto* trace =
      command->add_option("--trace", arguments->window.trace, "With --gui: the trace to open (the shipped one)")
          ->type_name("TRACE")
          ->needs(gui);
  auto* synthetic = command
                        ->add_option("--synthetic", arguments->window.synthetic,
                                     "With --gui: open a temporary trace of this many tokens and heads (131072x1024: 5 "
                                     "GB), created in TMPDIR and removed afterwards")
                        ->expected(0, 1)
                        ->type_name("TOKENSxHEADS")
                        ->needs(gui)
                        ->excludes(trace);
  AddSizeOption(command, &arguments->size, "With --gui: pixels of the canvas (1600x1000)")->needs(gui);
  LimitNumbers(command->add_option("--pan-seconds", arguments->window.pan_seconds,
                                   "With --gui: how long to pan at each of two zooms"),
               0.5, 600)
      ->capture_default_str()
      ->needs(gui);
  LimitIntegers(command->add_option("--slider-steps", arguments->window.live_steps,
                                    "With --gui: steps of each method's slider (0: none)"),
                0, 1000)
      ->capture_default_str()
      ->needs(gui);
  AddDeviceOption(command, &arguments->device);
  auto* lengths = LimitIntegers(command->add_option("--lengths", arguments->lengths,
                                                    "Tokens (cpu: 2048,4096; cuda: 8192 to 131072 in powers of two)"),
                                1, 1 << 24)
                      ->delimiter(',')
                      ->type_name("N,..");
  auto* methods =
      command
          ->add_option("--methods", arguments->methods,
                       "Fixed sets (dense, blocks-90, vertical-slash-1000x4096, a-shape-1024+4096, s2-l1v15; fp8/dense "
                       "etc. in FP8; latent/tokens-2048: 2048 chosen tokens per query, latent attention) and "
                       "registered methods, including decode/dense and sparq")
          ->type_name("NAME[:k=v,..],..");
  auto* heads =
      command->add_option("--heads", arguments->heads, "Query and KV heads (cpu: 8:4; cuda: 32:32)")->type_name("Q:KV");
  auto* head_dim =
      LimitIntegers(command->add_option("--head-dim", arguments->head_dim, "Components (cpu: 64; cuda: 128)"), 8, 256);
  auto* batch =
      LimitIntegers(command->add_option("--batch", arguments->batch, "Sequences"), 1, 65'536)->capture_default_str();
  auto* seed = AddSeedOption(command, &arguments->seed, "Random seed of Q, K, V and the fixed sets");
  auto* data = command
                   ->add_option("--data", arguments->data,
                                "Where Q, K and V come from: seeded; rising, peaky or local, optionally with a number "
                                "of nats (peaky:30); or the heads of a recorded layer")
                   ->type_name("KIND|trace:FILE[:LAYER]");
  command->add_option("--dtype", arguments->dtype, "fp32, bf16 or fp16 (cpu: fp32; cuda: bf16)");
  AddRepeatOption(command, &arguments->repeats);
  LimitNumbers(command->add_option("--sustained", arguments->sustained,
                                   "Then run each row by itself for this long without a pause, to show its speed at "
                                   "the power limit"),
               0, 600)
      ->type_name("SECONDS");
  AddThreadsOption(command, &arguments->threads);
  command
      ->add_option("--save-index", arguments->save_folder,
                   "Write every prefill index to this folder; created if missing")
      ->type_name("DIR");
  command
      ->add_option("--index", arguments->index_files,
                   "Time saved index sets on the problems they were saved for; may be repeated")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->excludes(lengths, methods, heads, head_dim, batch, seed, data);
  AddOutputOptions(command, &arguments->output, &arguments->force,
                   "Write everything as JSON (schema headscope-bench-1; of --gui headscope-window-bench-1)",
                   "OUT.json");
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] {
    if (synthetic->count() > 0 && arguments->window.synthetic.empty()) arguments->window.synthetic = "131072x1024";
    action = [=] { return RunBench(*arguments); };
  });
}

}  // namespace headscope::app
