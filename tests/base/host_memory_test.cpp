// SPDX-License-Identifier: Apache-2.0
#include "base/host_memory.h"

#include <gtest/gtest.h>

namespace headscope {
namespace {

TEST(HostMemory, IsWhatTheSystemSaysIsAvailable) {
  EXPECT_EQ(AvailableBytes("MemTotal:       16 kB\nMemFree:  2 kB\nMemAvailable:    7 kB\n"), 7 * 1024);
  EXPECT_EQ(AvailableBytes("MemTotal:       16 kB\n"), -1);
  EXPECT_EQ(AvailableBytes("MemAvailable:"), -1);
  EXPECT_EQ(AvailableBytes("MemAvailable:   none kB"), -1);
  EXPECT_EQ(AvailableBytes("MemAvailable: 9223372036854775807 kB"), -1) << "more than there are bytes to count";
  EXPECT_EQ(AvailableBytes(""), -1);
}

TEST(HostMemory, IsNoMoreThanTheControlGroupHasLeft) {
  EXPECT_EQ(LeftOfGroup("1000\n", "400\n", ""), 600);
  EXPECT_EQ(LeftOfGroup("1000\n", "1400\n", ""), 0);
  EXPECT_EQ(LeftOfGroup("max\n", "400\n", ""), -1) << "no limit";
  EXPECT_EQ(LeftOfGroup("", "", ""), -1) << "no such group";
  EXPECT_EQ(LeftOfGroup("1000\n", "", ""), -1);
  // Pages of files that were read count as used, and are given back when somebody asks.
  EXPECT_EQ(LeftOfGroup("1000\n", "900\n", "anon 300\ninactive_file 500\nactive_file 100\n"), 600);
  EXPECT_EQ(LeftOfGroup("1000\n", "900\n", "anon 300\ninactive_file 5000\n"), 1000);
}

TEST(HostMemory, ThereIsSome) {
  EXPECT_GT(FreeHostBytes(), int64_t{1} << 20);
}

}  // namespace
}  // namespace headscope
