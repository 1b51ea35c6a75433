// SPDX-License-Identifier: Apache-2.0
#include "base/byte_text.h"

#include <gtest/gtest.h>

namespace headscope {
namespace {

TEST(ByteTextTest, StepsBy1024) {
  EXPECT_EQ(ByteText(0), "0 B");
  EXPECT_EQ(ByteText(1023), "1023 B");
  EXPECT_EQ(ByteText(1536), "1.5 KiB");
  EXPECT_EQ(ByteText(int64_t{5} << 40), "5.0 TiB");
  EXPECT_EQ(ByteText(int64_t{5} << 52), "20480.0 TiB");
}

TEST(ByteTextTest, APartIsToldInTheUnitOfTheWhole) {
  EXPECT_EQ(ByteText(512, 2048), "0.5 of 2.0 KiB");
  EXPECT_EQ(ByteText(0, 1000), "0 of 1000 B");
}

}  // namespace
}  // namespace headscope
