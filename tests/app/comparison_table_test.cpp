// SPDX-License-Identifier: Apache-2.0
// The printed table of runs: what tells two of them apart is in it.
#include "commands/comparison_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace headscope::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

analysis::MethodResult Result(const char* method, const char* parameters, int64_t rows) {
  analysis::MethodResult result;
  result.head = {8, 4};
  result.method = method;
  result.parameters = parameters;
  result.phase = rows < 20 ? kernels::Phase::kDecode : kernels::Phase::kPrefill;
  result.measured = {analysis::Measure::kLayer, 8, 2, 8};
  result.chosen_per = kernels::ChosenPer::kKvHead;
  result.baseline = "LibTorch";
  result.device = result.select_device = NamedCpu();
  result.num_rows = rows;
  result.cra_p5 = 0.875;
  result.select = {1.5, 0.25, 3};
  result.attend = {2.5, 0.125, 3};
  result.dense_attend = {8, 0.5, 3};
  result.speedup = 2;
  return result;
}

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Two settings of one method looked alike.
TEST(ComparisonTable, SettingsAreToldApartAndWhatTheyShareIsSaidOnce) {
  const std::string table = ComparisonTable({Result("sparq", "r=32,k=64,local_share=0.25", 16),
                                             Result("sparq", "r=32,k=128,local_share=0.25", 16),
                                             Result("a-shape", "n_sink=4,n_local=64", 500)});
  const std::vector<std::string> lines = Lines(table);
  EXPECT_THAT(lines[1], ::testing::EndsWith("  k=64"));
  EXPECT_THAT(lines[2], ::testing::EndsWith("  k=128"));
  EXPECT_THAT(lines[3], ::testing::EndsWith("  n_sink=4,n_local=64")) << "one setting is written out";
  EXPECT_THAT(table, HasSubstr("All runs of sparq: r=32,local_share=0.25."));
}

TEST(ComparisonTable, SaysSpreadRowsAndWhoseDenseItIs) {
  const std::vector<std::string> lines =
      Lines(ComparisonTable({Result("sparq", "k=64", 16), Result("a-shape", "", 500)}));
  EXPECT_THAT(lines[0], HasSubstr("dense by"));
  EXPECT_THAT(lines[1], HasSubstr("1.500 +- 0.250"));
  EXPECT_THAT(lines[1], HasSubstr("8.000 +- 0.500"));
  EXPECT_THAT(lines[1], HasSubstr("LibTorch"));
  EXPECT_THAT(lines[1], HasSubstr("min of 16")) << "the fifth percentile of 16 rows is the minimum";
  EXPECT_THAT(lines[1], Not(HasSubstr("0.8750")));
  EXPECT_THAT(lines[2], HasSubstr("0.8750"));
  EXPECT_THAT(lines[2], HasSubstr(" 500 "));
}

// Beside a speed-up stands what the bytes allow, and below, how far from reading its baseline ran.
TEST(ComparisonTable, SaysWhatTheBytesAllow) {
  analysis::MethodResult sparq = Result("sparq", "k=64", 16);
  sparq.bytes_allow = 7.5;
  sparq.dense_of_reading = 0.5;
  const std::string table = ComparisonTable({sparq, Result("a-shape", "", 500)});
  const std::vector<std::string> lines = Lines(table);
  EXPECT_THAT(lines[0], HasSubstr("speed-up  bytes allow  dense by"));
  EXPECT_THAT(lines[1], HasSubstr("7.50x  LibTorch"));
  EXPECT_THAT(lines[2], HasSubstr("-  LibTorch"));
  EXPECT_THAT(table, HasSubstr("dense decode (LibTorch) ran at 50 % of the rate"));
  EXPECT_THAT(table, HasSubstr("reach 2.00 times what the bytes allow"));
}

TEST(ComparisonTable, SaysWhatWasTimedAndWhoShareAChoice) {
  const std::string table = ComparisonTable({Result("sparq", "k=64", 16), Result("sparq", "k=64", 16)});
  EXPECT_THAT(table, HasSubstr("layer 8: 8 heads in one launch, batch 1, with 2 KV heads"));
  EXPECT_THAT(table,
              HasSubstr("once per KV head, for its 4 query heads together (--measure head: per query head): sparq.\n"));
}

}  // namespace
}  // namespace headscope::app
