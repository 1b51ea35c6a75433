// SPDX-License-Identifier: Apache-2.0
// capture_overhead MODEL_DIR [TOKENS [PAIRS [THREADS]]]: what recording costs while a model reads a prompt.
//
// Method: pairs of runs, one with a recorder and one without, in turns and each in a process of its own, so that
// neither inherits the other's caches and memory. Compared is the processor time (user and system, all threads) between
// the end of loading and the last byte written, which other programs on the machine disturb far less than the wall
// clock. Prints every pair, then the medians. A thread that waits must not count as work: OMP_WAIT_POLICY=passive is
// set for the runs.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/row_selection.h"
#include "data/trace_writer.h"
#include "head_choice.h"
#include "model/transformer.h"
#include "recorder.h"

namespace headscope::capture {
namespace {

constexpr int32_t kChunkTokens = 1024;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

data::TraceLayout EverythingOf(const model::Transformer& model, int64_t num_tokens) {
  const model::ModelConfig& config = model.config();
  data::TraceLayout layout;
  layout.model = {
      "overhead",        config.model_type,   config.json,         std::string(64, '0'), std::string(64, '0'),
      config.num_layers, config.num_qo_heads, config.num_kv_heads, config.head_dim,      {}};
  layout.layers = ChooseNumbers({}, config.num_layers, "layer");
  layout.facts.assign(layout.layers.size(), data::UsualFacts(layout.model));
  layout.encoding = model.captured_type();
  layout.max_tokens = num_tokens;
  return layout;
}

// One prompt with or without a recorder of all heads; processor seconds.
double MeasureRun(const std::string& model_dir, int64_t num_tokens, int32_t num_threads, const std::string& trace) {
  const auto model = model::OpenTransformer(model_dir, {{}, kCpu, kChunkTokens, num_threads}, {});
  std::vector<int32_t> tokens(static_cast<size_t>(num_tokens));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(i * 37 % static_cast<size_t>(model->config().vocabulary_size));
  model->Reserve(num_tokens);
  const double begin = CpuSeconds();
  std::unique_ptr<data::TraceFilesWriter> writer;
  std::unique_ptr<Recorder> recorder;
  if (!trace.empty()) {
    const data::TraceLayout layout = EverythingOf(*model, num_tokens);
    writer = std::make_unique<data::TraceFilesWriter>(trace, layout, /*num_files=*/1, /*overwrite=*/true);
    recorder = std::make_unique<Recorder>(writer.get(), layout, RowSelection("all"), num_tokens, /*from_gpu=*/false);
  }
  for (int64_t done = 0; done < num_tokens; done += kChunkTokens) {
    const int64_t count = std::min<int64_t>(kChunkTokens, num_tokens - done);
    if (recorder) recorder->BeginPass(std::vector<data::TokenRecord>(static_cast<size_t>(count)));
    model->Forward(std::span(tokens).subspan(static_cast<size_t>(done), static_cast<size_t>(count)),
                   model::LogitsOf::kNone, recorder.get());
    if (recorder) recorder->EndPass();
  }
  if (recorder) {
    recorder->Drain();
    writer->Finish();
  }
  return CpuSeconds() - begin;
}

// The same in a process of its own, which prints the seconds.
double MeasureInProcess(const std::vector<std::string>& arguments) {
  std::string command = "/proc/" + std::to_string(getpid()) + "/exe --run";
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(popen(command.c_str(), "r"), &pclose);
  double seconds = 0;
  if (output == nullptr || std::fscanf(output.get(), "%lf", &seconds) != 1)
    throw std::runtime_error("a run failed: " + command);
  return seconds;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

int Main(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments[0] == "--run") {
    std::printf("%.6f\n", MeasureRun(arguments.at(1), std::stoll(arguments.at(2)), std::stoi(arguments.at(3)),
                                     arguments.size() > 4 ? arguments[4] : ""));
    return 0;
  }
  if (arguments.empty()) throw std::invalid_argument("capture_overhead MODEL_DIR [TOKENS [PAIRS [THREADS]]]");
  const char* defaults[] = {"", "4096", "7", "0"};
  for (size_t i = arguments.size(); i < 4; ++i) arguments.emplace_back(defaults[i]);
  const int pairs = std::stoi(arguments[2]);
  if (pairs < 1) throw std::invalid_argument("PAIRS " + arguments[2] + ": at least 1 is needed");
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/1);
  const std::string trace =
      (std::filesystem::temp_directory_path() / ("capture-overhead-" + std::to_string(getpid()) + ".h5")).string();
  const std::vector<std::string> off = {arguments[0], arguments[1], arguments[3]};
  std::vector<std::string> on = off;
  on.push_back(trace);
  std::vector<double> with, without, ratios;
  for (int pair = 0; pair < pairs; ++pair) {
    const bool on_first = pair % 2 == 1;
    if (on_first) with.push_back(MeasureInProcess(on));
    without.push_back(MeasureInProcess(off));
    if (!on_first) with.push_back(MeasureInProcess(on));
    std::filesystem::remove(trace);
    ratios.push_back(with.back() / without.back());
    std::printf("pair %d: %.2f s of processor time with capture, %.2f s without, %+.1f %%\n", pair + 1, with.back(),
                without.back(), 100 * (ratios.back() - 1));
    std::fflush(stdout);
  }
  std::printf("medians: %.2f s with capture, %.2f s without, %+.1f %%; median of the pairs %+.1f %%\n", Median(with),
              Median(without), 100 * (Median(with) / Median(without) - 1), 100 * (Median(ratios) - 1));
  return 0;
}

}  // namespace
}  // namespace headscope::capture

int main(int argc, char** argv) {
  try {
    return headscope::capture::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "capture_overhead: %s\n", error.what());
    return 1;
  }
}
