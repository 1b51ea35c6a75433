// SPDX-License-Identifier: Apache-2.0
// trace_writing_benchmark FOLDER [--gigabytes N] [--traces N] [--repeat N]: how fast traces are written, each by a
// thread of its own, beside what the machine copies in memory and writes into the same folder's page cache. Gigabytes
// are 10^9 bytes.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "data/trace_writer.h"

namespace headscope {
namespace {

constexpr int32_t kLayers = 8, kHeads = 32, kKvHeads = 8, kDim = 128;
constexpr int64_t kPass = 1024;

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Layers of a common shape in bf16, a pass of 1024 tokens at a time. Returns the bytes.
int64_t WriteTrace(const std::string& path, int64_t bytes) {
  data::TraceLayout layout;
  layout.model.name = "benchmark";
  layout.model.model_type = "llama";
  layout.model.config_json = "{}";
  layout.model.weights_sha256 = layout.model.tokenizer_sha256 = std::string(64, '0');
  layout.model.num_layers = kLayers;
  layout.model.num_qo_heads = kHeads;
  layout.model.num_kv_heads = kKvHeads;
  layout.model.head_dim = kDim;
  for (int32_t layer = 0; layer < kLayers; ++layer) layout.layers.push_back(layer);
  layout.facts.assign(kLayers, data::UsualFacts(layout.model));
  layout.encoding = ElementType::kBFloat16;
  const int64_t of_token = int64_t{kLayers} * ((kHeads + 2 * kKvHeads) * kDim * 2 + kHeads * 4);
  const int64_t passes = std::max<int64_t>(1, bytes / (of_token * kPass));
  layout.max_tokens = passes * kPass;
  const std::vector<uint16_t> values(static_cast<size_t>(kHeads * kPass * kDim), 0x3f80);
  const std::vector<float> lse(static_cast<size_t>(kHeads * kPass), 1.0f);
  data::TraceWriter writer(path, layout, /*overwrite=*/true);
  for (int64_t pass = 0; pass < passes; ++pass) {
    writer.AppendTokens(std::vector<data::TokenRecord>(static_cast<size_t>(kPass)));
    std::vector<int32_t> positions;
    for (int64_t i = 0; i < kPass; ++i) positions.push_back(static_cast<int32_t>(pass * kPass + i));
    writer.AppendRowPositions(positions);
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      data::LayerBlock block;
      block.layer_slot = layer;
      block.first_token = block.first_row = pass * kPass;
      block.num_tokens = block.num_rows = kPass;
      block.q = block.k = block.v = values.data();
      block.lse = lse.data();
      writer.Append(block);
    }
  }
  writer.Finish();
  return passes * kPass * of_token;
}

void PlainWrite(const std::string& path, int64_t bytes) {
  const std::vector<char> block(int64_t{8} << 20, 'x');
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  for (int64_t done = 0; file >= 0 && done < bytes; done += static_cast<int64_t>(block.size())) {
    if (write(file, block.data(), block.size()) < 0) break;
  }
  close(file);
}

void CopyInMemory(int64_t bytes) {
  std::vector<char> from(int64_t{256} << 20, 'x'), to(from.size());
  for (int64_t done = 0; done < bytes; done += static_cast<int64_t>(from.size()))
    std::memcpy(to.data(), from.data(), from.size());
}

void Run(const std::string& folder, double gigabytes, int traces, int repeat) {
  const auto each = static_cast<int64_t>(gigabytes * 1e9 / traces);
  const auto path = [&](int number) { return folder + "/writing-" + std::to_string(number) + ".h5"; };
  const auto in_threads = [&](const std::function<void(int)>& work) {
    std::vector<std::jthread> threads;
    for (int number = 0; number < traces; ++number) threads.emplace_back(work, number);
  };
  const auto remove = [&] {
    for (int number = 0; number < traces; ++number) std::filesystem::remove(path(number));
  };
  for (int i = 0; i < repeat; ++i) {
    const double copied = Seconds([&] { in_threads([&](int) { CopyInMemory(each); }); });
    const double plain = Seconds([&] { in_threads([&](int number) { PlainWrite(path(number), each); }); });
    remove();
    std::vector<int64_t> bytes(static_cast<size_t>(traces));
    const double written = Seconds(
        [&] { in_threads([&](int number) { bytes[static_cast<size_t>(number)] = WriteTrace(path(number), each); }); });
    remove();
    int64_t all = 0;
    for (const int64_t some : bytes) all += some;
    std::printf("%d traces: %.2f GB/s; plain writes %.2f GB/s, copies in memory %.2f GB/s\n", traces,
                static_cast<double>(all) / written / 1e9, gigabytes / plain, gigabytes / copied);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace headscope

int main(int argc, char** argv) {
  std::string folder;
  double gigabytes = 2;
  int traces = 1, repeat = 3;
  CLI::App app("How fast traces are written");
  app.add_option("folder", folder)->required();
  app.add_option("--gigabytes", gigabytes)->check(CLI::Range(0.1, 1000.0));
  app.add_option("--traces", traces)->check(CLI::Range(1, 64));
  app.add_option("--repeat", repeat)->check(CLI::Range(1, 100));
  CLI11_PARSE(app, argc, argv);
  try {
    headscope::Run(folder, gigabytes, traces, repeat);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trace_writing_benchmark: %s\n", error.what());
    return 1;
  }
  return 0;
}
