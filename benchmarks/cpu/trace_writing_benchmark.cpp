// SPDX-License-Identifier: Apache-2.0
// trace_writing_benchmark FOLDER [--gigabytes N] [--layers N] [--traces N] [--files N] [--repeat N]: how fast traces
// are written, each by a thread of its own, or with --files as many files of one trace, by a thread each; beside what
// the machine writes into the same folder's page cache without more, what it writes where each block of a chunk's size
// is copied and summed up before, and what it copies in memory. Gigabytes are 10^9 bytes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/errors.h"
#include "data/trace_files_writer.h"
#include "plain_writes.h"
#include "trace/fletcher32.h"

namespace headscope {
namespace {

constexpr int32_t kHeads = 32, kKvHeads = 8, kDim = 128;
constexpr int64_t kPass = 1024;

// By the wall clock, and by all processors together, which other programs on the machine change less.
struct Seconds {
  double wall = 0, processors = 0;
};

double Processed() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Seconds Measure(const std::function<void()>& work) {
  const double processed = Processed();
  const auto begin = std::chrono::steady_clock::now();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), Processed() - processed};
}

void Print(const char* what, double bytes, const Seconds& taken) {
  std::printf("  %-28s %.2f GB/s, %.2f GB for a second of processor time\n", what, bytes / taken.wall / 1e9,
              bytes / taken.processors / 1e9);
}

// Layers of a common shape in bf16, a pass of 1024 tokens at a time, by a thread for each file. Returns the bytes.
int64_t WriteTrace(const std::string& path, int64_t bytes, int32_t num_layers, int32_t num_files) {
  data::TraceLayout layout;
  layout.model.name = "benchmark";
  layout.model.model_type = "llama";
  layout.model.config_json = "{}";
  layout.model.weights_sha256 = layout.model.tokenizer_sha256 = std::string(64, '0');
  layout.model.num_layers = num_layers;
  layout.model.num_qo_heads = kHeads;
  layout.model.num_kv_heads = kKvHeads;
  layout.model.head_dim = kDim;
  for (int32_t layer = 0; layer < num_layers; ++layer) layout.layers.push_back(layer);
  layout.facts.assign(static_cast<size_t>(num_layers), data::UsualFacts(layout.model));
  layout.encoding = ElementType::kBFloat16;
  const int64_t of_token = int64_t{num_layers} * ((kHeads + 2 * kKvHeads) * kDim * 2 + kHeads * 4);
  const int64_t passes = std::max<int64_t>(1, bytes / (of_token * kPass));
  layout.max_tokens = passes * kPass;
  const std::vector<uint16_t> values(static_cast<size_t>(kHeads * kPass * kDim), 0x3f80);
  const std::vector<float> lse(static_cast<size_t>(kHeads * kPass), 1.0f);
  data::TraceFilesWriter writer(path, layout, num_files, /*overwrite=*/true);
  const auto write_file = [&](int32_t file) {
    for (int64_t pass = 0; pass < passes; ++pass) {
      writer.file(file).AppendTokens(std::vector<data::TokenRecord>(static_cast<size_t>(kPass)));
      std::vector<int32_t> positions;
      for (int64_t i = 0; i < kPass; ++i) positions.push_back(static_cast<int32_t>(pass * kPass + i));
      writer.file(file).AppendRowPositions(positions);
      for (int32_t layer = 0; layer < num_layers; ++layer) {
        if (writer.PlaceOf(layer).file != file) continue;
        data::LayerBlock block;
        block.layer_slot = layer;
        block.first_token = block.first_row = pass * kPass;
        block.num_tokens = block.num_rows = kPass;
        block.q = block.k = block.v = values.data();
        block.lse = lse.data();
        writer.Append(block);
      }
    }
  };
  InThreads(num_files, write_file);
  writer.Finish();
  return passes * kPass * of_token;
}

enum class Before { kNothing, kCopyAndSum };

void WriteBlocks(const std::string& path, int64_t bytes, Before before) {
  if (before == Before::kNothing) return WritePlainly(path, bytes);
  std::vector<char> chunk(kPlainBlock + sizeof(uint32_t));
  WritePlainly(path, bytes, [&](std::span<const char> block) {
    std::ranges::copy(block, chunk.begin());
    const uint32_t sum = data::Fletcher32(chunk.data(), block.size());
    std::memcpy(chunk.data() + block.size(), &sum, sizeof sum);
    return std::span<const char>(chunk);
  });
}

void CopyInMemory(int64_t bytes) {
  std::vector<char> from(int64_t{256} << 20, 'x'), to(from.size());
  for (int64_t done = 0; done < bytes; done += static_cast<int64_t>(from.size()))
    std::memcpy(to.data(), from.data(), from.size());
}

// `traces` writers: of a trace each, or where `of_one` of the files of a single one.
void Run(const std::string& folder, double gigabytes, int32_t num_layers, int traces, bool of_one, int repeat) {
  if (!std::filesystem::is_directory(folder))
    throw UsageError(
        {.field = "folder", .value = folder, .problem = "it is not a folder", .remedy = "name one that is there"});
  const auto each = static_cast<int64_t>(gigabytes * 1e9 / traces);
  const auto path = [&](int number) { return folder + "/writing-" + std::to_string(number) + ".h5"; };
  const auto in_threads = [&](const std::function<void(int)>& work) { InThreads(traces, work); };
  const auto remove = [&] {
    for (int number = 0; number < traces; ++number) {
      std::filesystem::remove(path(number));
      std::filesystem::remove(data::TraceFilePath(path(0), number + 1, traces));
    }
  };
  // The first files of a process are given pages that nobody has used yet, which takes longer.
  in_threads([&](int number) { WriteBlocks(path(number), each, Before::kNothing); });
  remove();
  for (int i = 0; i < repeat; ++i) {
    const Seconds copied = Measure([&] { in_threads([&](int) { CopyInMemory(each); }); });
    const auto write = [&](Before before) {
      const Seconds seconds =
          Measure([&] { in_threads([&](int number) { WriteBlocks(path(number), each, before); }); });
      remove();
      return seconds;
    };
    const Seconds plain = write(Before::kNothing), summed = write(Before::kCopyAndSum);
    std::vector<int64_t> bytes(static_cast<size_t>(traces));
    const Seconds written = Measure([&] {
      if (of_one) {
        bytes.front() = WriteTrace(path(0), each * traces, num_layers, traces);
      } else {
        in_threads(
            [&](int number) { bytes[static_cast<size_t>(number)] = WriteTrace(path(number), each, num_layers, 1); });
      }
    });
    remove();
    int64_t all = 0;
    for (const int64_t some : bytes) all += some;
    const double asked = static_cast<double>(each) * traces;
    std::printf("%d %s of %.2f GB\n", traces,
                of_one        ? "files of one trace"
                : traces == 1 ? "trace"
                              : "traces at once",
                static_cast<double>(each) / 1e9);
    Print("traces", static_cast<double>(all), written);
    Print("plain writes", asked, plain);
    Print("plain writes, copied, summed", asked, summed);
    Print("copies in memory", asked, copied);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace headscope

int main(int argc, char** argv) {
  std::string folder;
  double gigabytes = 2;
  int32_t layers = 8;
  int traces = 1, files = 0, repeat = 3;
  CLI::App app("How fast traces are written");
  app.add_option("folder", folder)->required();
  app.add_option("--gigabytes", gigabytes)->check(CLI::Range(0.1, 1000.0));
  app.add_option("--layers", layers)->check(CLI::Range(1, 256));
  app.add_option("--traces", traces)->check(CLI::Range(1, 64));
  app.add_option("--files", files, "Write one trace in so many files")
      ->check(CLI::Range(1, headscope::data::kMaxTraceFiles))
      ->excludes("--traces");
  app.add_option("--repeat", repeat)->check(CLI::Range(1, 100));
  CLI11_PARSE(app, argc, argv);
  try {
    headscope::Run(folder, gigabytes, layers, files > 0 ? files : traces, files > 0, repeat);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trace_writing_benchmark: %s\n", error.what());
    return 1;
  }
  return 0;
}
