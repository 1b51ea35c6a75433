// SPDX-License-Identifier: Apache-2.0
// Tests alone in their program, because they look at the peak memory of the whole process.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "data/trace_files_writer.h"
#include "synthetic_trace.h"

namespace headscope::data {
namespace {

int64_t PeakMemoryKiB() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") {
      int64_t kib = 0;
      status >> kib;
      return kib;
    }
  }
  return -1;
}

// Before the other, whose peak is higher: what is full leaves its memory to the next chunk, whoever's that is.
TEST(TraceMemory, WholeChunksTakeTheMemoryOfOne) {
  const testing::ScratchFolder folder;
  TraceLayout layout = testing::SmallLayout(ElementType::kBFloat16, 1 << 20);
  testing::SetHeadDim(&layout, 128);
  layout.row_selection = "all";
  constexpr int32_t kLayers = 30;
  constexpr int64_t kPass = 1024;  // tokens of a chunk
  layout.model.num_layers = kLayers;
  layout.facts.assign(kLayers, layout.facts[0]);
  layout.layers.resize(kLayers);
  std::iota(layout.layers.begin(), layout.layers.end(), 0);
  const std::vector<uint16_t> values(4 * kPass * 128, 0x3f80);
  const std::vector<float> lse(4 * kPass, 1.0f);
  TraceWriter writer(folder.File("t.h5"), layout, false);
  std::vector<int32_t> rows(kPass);
  std::iota(rows.begin(), rows.end(), 0);
  writer.AppendTokens(std::vector<TokenRecord>(kPass));
  writer.AppendRowPositions(rows);
  const int64_t before = PeakMemoryKiB();
  for (int32_t slot = 0; slot < kLayers; ++slot)
    writer.Append({slot, 0, kPass, 0, kPass, values.data(), values.data(), values.data(), lse.data()});
  const int64_t all_chunks = kLayers * (4 + 3 + 3) * 256;  // KiB
  ASSERT_GT(before, 0);
  EXPECT_LT(PeakMemoryKiB() - before, all_chunks / 4);
  writer.Finish();
}

TEST(TraceMemory, PeakDoesNotGrowWithTheTrace) {
  const testing::ScratchFolder folder;
  TraceLayout layout = testing::SmallLayout(ElementType::kBFloat16, 1 << 20);
  testing::SetHeadDim(&layout, 128);
  layout.row_selection = "all";
  constexpr int64_t kPass = 1000;  // not a divisor of the chunks, so that chunks stay open between passes
  const std::vector<uint16_t> values(4 * kPass * 128, 0x3f80);
  const std::vector<float> lse(4 * kPass, 1.0f);
  const int64_t pass_bytes = 3 * (4 + 3 + 3) * kPass * 256;
  TraceWriter writer(folder.File("t.h5"), layout, false);
  int64_t early = 0, written = 0;
  for (int64_t pass = 0; written < 256 << 20; ++pass, written += pass_bytes) {
    std::vector<TokenRecord> tokens;
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < kPass; ++i) {
      tokens.push_back(testing::TokenAt(pass * kPass + i, kPass));
      rows.push_back(static_cast<int32_t>(pass * kPass + i));
    }
    writer.AppendTokens(tokens);
    writer.AppendRowPositions(rows);
    for (int32_t slot = 0; slot < 3; ++slot) {
      writer.Append(
          {slot, pass * kPass, kPass, pass * kPass, kPass, values.data(), values.data(), values.data(), lse.data()});
    }
    writer.Flush();
    if (pass == 4) {
      early = PeakMemoryKiB();
    }
  }
  writer.Finish();
  const int64_t peak = PeakMemoryKiB();
  EXPECT_GT(std::filesystem::file_size(folder.File("t.h5")), 256u << 20);
  ASSERT_GT(early, 0);
  EXPECT_LT(peak - early, 4 << 10) << "KiB more after 256 MiB than after 38 MiB";
  EXPECT_LT(peak, 96 << 10);
}

constexpr int64_t kManyTokens = 200000;

// Of a child that opens it.
int64_t PeakToOpenKiB(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(TraceReader(path).num_tokens() == kManyTokens ? 0 : 1);
  int status = 0;
  rusage used{};
  EXPECT_EQ(::wait4(child, &status, 0, &used), child);
  EXPECT_EQ(status, 0);
  return used.ru_maxrss;
}

// The last one, for writing takes more than the others may have taken. All files have all tokens.
TEST(TraceMemory, OpeningManyFilesTakesTheTokensOfOne) {
  const testing::ScratchFolder folder;
  constexpr int32_t kLayers = 24;
  TraceLayout layout = testing::SmallLayout(ElementType::kBFloat16, kManyTokens);
  layout.model.num_layers = kLayers;
  layout.facts[0].qo_heads = {2};
  layout.facts[0].kv_heads = {1};
  layout.facts.assign(kLayers, layout.facts[0]);
  layout.layers.resize(kLayers);
  std::iota(layout.layers.begin(), layout.layers.end(), 0);
  testing::SetHeadDim(&layout, 1);
  std::vector<TokenRecord> tokens;
  for (int64_t i = 0; i < kManyTokens; ++i) tokens.push_back(testing::TokenAt(i, kManyTokens));
  const std::vector<uint16_t> values(kManyTokens);
  const auto path = [&](int32_t files) { return folder.File(std::to_string(files) + ".h5"); };
  for (const int32_t files : {2, kLayers}) {
    TraceFilesWriter writer(path(files), layout, files, /*overwrite=*/false, /*expected_rows=*/1);
    writer.AppendTokens(tokens);
    const int32_t row = kManyTokens - 1;
    writer.AppendRowPositions({&row, 1});
    const float lse = 0;
    for (int32_t slot = 0; slot < kLayers; ++slot)
      writer.Append({slot, 0, kManyTokens, 0, 1, values.data(), values.data(), values.data(), &lse});
    writer.Finish();
  }
  // After both: a child begins with the memory that its parent has.
  const int64_t few = PeakToOpenKiB(path(2)), many = PeakToOpenKiB(path(kLayers));
  const int64_t of_one = kManyTokens * static_cast<int64_t>(sizeof(TokenRecord)) / 1024;
  EXPECT_LT(many - few, 3 * of_one) << few << " KiB for two files";
}

}  // namespace
}  // namespace headscope::data
