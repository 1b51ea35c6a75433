// SPDX-License-Identifier: Apache-2.0
#include "base/device_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace headscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(DeviceName, IsTheProcessorOrAGpuByItsNumber) {
  EXPECT_FALSE(ParseDeviceName("cpu").is_gpu);
  for (const auto& [text, gpu] :
       {std::pair{"cuda", 0}, {"cuda:0", 0}, {"cuda:1", 1}, {"cuda:12", 12}, {"cuda:127", 127}}) {
    const DeviceName device = ParseDeviceName(text);
    EXPECT_TRUE(device.is_gpu) << text;
    EXPECT_EQ(device.gpu, gpu) << text;
  }
}

TEST(DeviceName, AnythingElseIsRefusedWithItsOption) {
  for (const std::string text :
       {"", "gpu", "CUDA", "cpu:0", "cuda:", "cuda1", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1 ", "cuda:1.5", "cuda:x",
        "cuda:1x", "cuda:128", "cuda:99999999999", "cuda::1", "cudaa"}) {
    EXPECT_THAT([&] { ParseDeviceName(text); },
                ThrowsMessage<std::invalid_argument>(
                    AllOf(StartsWith("device " + text + ":"), HasSubstr("cpu, cuda or cuda:N"))));
  }
}

}  // namespace
}  // namespace headscope
