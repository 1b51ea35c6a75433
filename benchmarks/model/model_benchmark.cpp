// SPDX-License-Identifier: Apache-2.0
// model_benchmark MODEL_DIR [--tokens N] [--decode N] [--chunk N] [--device cuda] [--threads N] [--repeat N]
// [--own-attention] [--trace OUT.h5 [--layers 0,1,..] [--files N] [--disk-rate FOLDER]]: a prompt and the steps behind
// it, without a recorder, or with one of every head of all layers or of some, into so many files with a thread each;
// attention as every command has it, or all of it by the project's own dense executors. A line of JSON a repetition:
// seconds of the wall clock and of processors. With --disk-rate each capture is followed by as many bytes as its trace
// has, written into FOLDER by as many threads without a format: `disk` seconds, and `of_disk`, the capture's seconds as
// a share of those that its bytes take at 0.9 of the disk's rate. model_beside_transformers runs it in turn with
// transformers.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/device.h"
#include "capture/capture.h"
#include "data/trace_files.h"
#include "model/model_session.h"
#include "one_capture.h"
#include "plain_writes.h"
#include "sparse_model/method_attention.h"
#include "sparse_model/own_dense.h"

namespace headscope {
namespace {

constexpr double kShareOfDisk = 0.9;  // of its rate, which a capture is to reach

struct Arguments {
  std::string model_dir, trace, disk, device = "cpu";
  std::vector<int32_t> layers;  // recorded; empty: all
  int64_t tokens = 4096, decode = 64;
  int32_t threads = 0, chunk = 0;  // 0: as without the option
  int32_t files = 1;
  int repeat = 3;
  bool own_attention = false;
};

// Null: LibTorch attends.
std::unique_ptr<sparse_model::MethodAttention> OwnAttention(const Arguments& arguments, bool trace_lse) {
  if (!arguments.own_attention) return nullptr;
  sparse_model::MethodChoice dense;
  dense.num_threads = arguments.threads;
  dense.trace_lse = trace_lse;
  return sparse_model::AttendByMethods(dense);
}

// Any tokens take as long; the rule is model_beside_transformers' too.
std::vector<int32_t> Prompt(int64_t count, int32_t vocabulary) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * 37 % vocabulary));
  return tokens;
}

// Since it was made: by the wall clock, and by all processors together.
class Stopwatch {
 public:
  double Wall() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_).count(); }
  double Processors() const { return Processed() - processed_; }

 private:
  static double Processed() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  double processed_ = Processed();
};

void RunAlone(const Arguments& arguments) {
  model::SessionOptions options;
  options.num_threads = arguments.threads;
  options.device = ParseDevice(arguments.device);
  if (arguments.chunk > 0) options.chunk_tokens = arguments.chunk;
  options.dense_executor = sparse_model::OwnDense();                    // as every command has it
  const auto attention = OwnAttention(arguments, /*trace_lse=*/false);  // outlives the session
  model::ModelSession session(arguments.model_dir, options);
  session.UseAttention(attention.get());
  const std::vector<int32_t> prompt = Prompt(arguments.tokens, session.summary().vocabulary_size);
  session.Feed(std::span(prompt).first(32));  // the first pass of a process begins its threads
  session.Generate(2);
  for (int i = 0; i < arguments.repeat; ++i) {
    session.Reset();
    const Stopwatch fed;
    session.Feed(prompt);
    const double prefill = fed.Wall(), prefill_processors = fed.Processors();
    const Stopwatch generated;
    session.Generate(arguments.decode);
    std::printf("{\"prefill\": %.6f, \"decode\": %.6f, \"prefill_cpu\": %.6f, \"decode_cpu\": %.6f}\n", prefill,
                generated.Wall(), prefill_processors, generated.Processors());
    std::fflush(stdout);
  }
}

// Seconds that so many bytes take in `folder`, in as many files by a thread each.
double DiskSeconds(const std::string& folder, int64_t bytes, int32_t num_files) {
  const auto path = [&](int number) { return folder + "/plain-" + std::to_string(number) + ".bin"; };
  const Stopwatch begun;
  InThreads(num_files, [&](int number) { WritePlainly(path(number), bytes / num_files); });
  const double seconds = begun.Wall();
  for (int number = 0; number < num_files; ++number) std::filesystem::remove(path(number));
  return seconds;
}

void RunCapture(const Arguments& arguments) {
  capture::CaptureRequest request;
  request.model_dir = arguments.model_dir;
  request.output_path = arguments.trace;
  request.overwrite = true;
  request.decode_tokens = static_cast<decltype(request.decode_tokens)>(arguments.decode);
  request.num_threads = arguments.threads;
  request.device = ParseDevice(arguments.device);
  request.layers = arguments.layers;
  request.num_files = arguments.files;
  const auto attention = OwnAttention(arguments, /*trace_lse=*/true);
  request.attention = attention.get();
  if (arguments.chunk > 0) request.chunk_tokens = arguments.chunk;
  request.tokens = Prompt(arguments.tokens, model::ReadCheckpointSummary(arguments.model_dir, false).vocabulary_size);
  // Of one model, as what runs alone is: the first pass of a process begins its threads, and a model's own first pass
  // takes memory that later ones find.
  capture::ModelInUse in_use;
  capture::PlanWith(request, &in_use);
  capture::CaptureRequest few = request;
  few.tokens.resize(32);
  few.decode_tokens = std::min<decltype(few.decode_tokens)>(2, request.decode_tokens);
  capture::CaptureWith(few, &in_use, {}, {});
  // A capture's own seconds leave out its files' beginning and end, which a prompt of few tokens stands for in the
  // processor time.
  const Stopwatch opened;
  capture::CaptureWith(few, &in_use, {}, {});
  const double loading_processors = opened.Processors();
  for (int i = 0; i < arguments.repeat; ++i) {
    const Stopwatch begun;
    const capture::CaptureResult result = capture::CaptureWith(request, &in_use, {}, {});
    std::printf("{\"whole\": %.6f, \"whole_cpu\": %.6f, \"bytes\": %lld", result.seconds,
                begun.Processors() - loading_processors, static_cast<long long>(result.bytes));
    if (!arguments.disk.empty()) {
      const double disk = DiskSeconds(arguments.disk, result.bytes, arguments.files);
      std::printf(", \"disk\": %.6f, \"of_disk\": %.3f", disk, result.seconds * kShareOfDisk / disk);
    }
    std::printf("}\n");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace headscope

int main(int argc, char** argv) {
  headscope::Arguments arguments;
  CLI::App app("A model's prompt and decode steps, with and without a recorder");
  app.add_option("model", arguments.model_dir)->required();
  app.add_option("--tokens", arguments.tokens)->check(CLI::Range(32, 1 << 20));
  app.add_option("--decode", arguments.decode)->check(CLI::Range(0, 1 << 16));
  app.add_option("--threads", arguments.threads)->check(CLI::Range(0, 1024));
  app.add_option("--repeat", arguments.repeat)->check(CLI::Range(1, 1000));
  app.add_option("--chunk", arguments.chunk)->check(CLI::Range(1, 1 << 20));
  app.add_option("--device", arguments.device);
  app.add_flag("--own-attention", arguments.own_attention);
  CLI::Option* trace = app.add_option("--trace", arguments.trace);
  app.add_option("--layers", arguments.layers)->delimiter(',')->needs(trace);
  app.add_option("--files", arguments.files)->check(CLI::Range(1, headscope::data::kMaxTraceFiles))->needs(trace);
  app.add_option("--disk-rate", arguments.disk)->check(CLI::ExistingDirectory)->needs(trace);
  CLI11_PARSE(app, argc, argv);
  try {
    if (arguments.trace.empty())
      headscope::RunAlone(arguments);
    else
      headscope::RunCapture(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "model_benchmark: %s\n", error.what());
    return 1;
  }
  return 0;
}
