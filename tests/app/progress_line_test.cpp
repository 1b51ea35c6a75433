// SPDX-License-Identifier: Apache-2.0
#include "support/progress_line.h"

#include <gtest/gtest.h>

namespace headscope::app {
namespace {

Progress Made(const char* stage, int64_t done, int64_t total, ProgressUnit unit, double rate, double remaining_s) {
  Progress progress;
  progress.stage = stage;
  progress.done = done;
  progress.total = total;
  progress.unit = unit;
  progress.rate = rate;
  progress.remaining_s = remaining_s;
  return progress;
}

TEST(ProgressTextTest, CountsBytesInTheUnitOfTheTotal) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  EXPECT_EQ(ProgressText(Made("loading model", 841 * kMiB / 10, 160 * kMiB, ProgressUnit::kBytes, 175.04 * kMiB, 1)),
            "loading model: 84.1 of 160.0 MiB (53 %), 175.0 MiB/s, 1 s left");
  EXPECT_EQ(ProgressText(Made("loading model", 100, 900, ProgressUnit::kBytes, 0, -1)),
            "loading model: 100 of 900 B (11 %)");
  EXPECT_EQ(ProgressText(Made("writing", 512 * kMiB, 4096 * kMiB, ProgressUnit::kBytes, 3.5 * 1024, 65)),
            "writing: 0.5 of 4.0 GiB (12 %), 3.5 KiB/s, 1 m 05 s left");
}

TEST(ProgressTextTest, APercentageHasNoRate) {
  EXPECT_EQ(ProgressText(Made("exporting", 45, 100, ProgressUnit::kPercent, 12.5, 4.4)), "exporting: 45 %, 4 s left");
}

TEST(ProgressTextTest, SlowRatesKeepADecimal) {
  EXPECT_EQ(ProgressText(Made("comparing", 3, 12, ProgressUnit::kRuns, 0.25, 36)),
            "comparing: 3 of 12 runs (25 %), 0.2 runs/s, 36 s left");
  EXPECT_EQ(ProgressText(Made("prefill", 1024, 4096, ProgressUnit::kTokens, 1536.4, 2)),
            "prefill: 1024 of 4096 tokens (25 %), 1536 tokens/s, 2 s left");
}

TEST(ProgressTextTest, TheEndHasNothingLeft) {
  EXPECT_EQ(ProgressText(Made("prefill", 10, 10, ProgressUnit::kTokens, 20, 0)),
            "prefill: 10 of 10 tokens (100 %), 20 tokens/s");
  EXPECT_EQ(ProgressText(Made("prefill", 0, 0, ProgressUnit::kTokens, 0, -1)), "prefill");
}

}  // namespace
}  // namespace headscope::app
