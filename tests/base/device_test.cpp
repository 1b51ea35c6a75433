// SPDX-License-Identifier: Apache-2.0
#include "base/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/errors.h"

namespace headscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(Device, IsTheProcessorOrAGpuByItsNumber) {
  EXPECT_EQ(ParseDevice("cpu"), kCpu);
  EXPECT_FALSE(kCpu.is_gpu());
  for (const auto& [text, gpu] :
       {std::pair{"cuda", 0}, {"cuda:0", 0}, {"cuda:1", 1}, {"cuda:12", 12}, {"cuda:127", 127}}) {
    const Device device = ParseDevice(text);
    EXPECT_TRUE(device.is_gpu()) << text;
    EXPECT_EQ(device.ordinal, gpu) << text;
  }
}

TEST(Device, IsShownAsItIsParsed) {
  EXPECT_EQ(DeviceText(kCpu), "cpu");
  for (const char* text : {"cpu", "cuda:0", "cuda:7"}) EXPECT_EQ(DeviceText(ParseDevice(text)), text);
}

TEST(Device, AnythingElseIsRefusedWithItsOption) {
  for (const std::string text :
       {"", "gpu", "CUDA", "cpu:0", "cuda:", "cuda1", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1 ", "cuda:1.5", "cuda:x",
        "cuda:1x", "cuda:128", "cuda:99999999999", "cuda::1", "cudaa"}) {
    EXPECT_THAT([&] { ParseDevice(text); }, ThrowsMessage<UsageError>(AllOf(StartsWith("device \"" + text + "\":"),
                                                                            HasSubstr("cpu, cuda or cuda:N"))));
  }
}

}  // namespace
}  // namespace headscope
