// SPDX-License-Identifier: Apache-2.0
// One test alone in its program, because it looks at the peak memory of the whole process.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

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

}  // namespace
}  // namespace headscope::data
