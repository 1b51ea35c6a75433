// SPDX-License-Identifier: Apache-2.0
// An error's sentence, its kind, and what a catcher adds to it.
#include "base/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/check_status.h"

namespace headscope {
namespace {

using ::testing::ThrowsMessage;

TEST(Errors, AreOneSentenceOfTheirParts) {
  EXPECT_STREQ(FailedError("it fell").what(), "it fell");
  EXPECT_STREQ(BadInputError({.file = "a.json", .field = "head_dim", .problem = "is 0", .remedy = "repair it"}).what(),
               "a.json: head_dim: is 0; repair it");
  EXPECT_STREQ(UsageError({.field = "length", .value = "20", .problem = "it must be at least 64"}).what(),
               "length 20: it must be at least 64");
}

TEST(Errors, SayTheirKind) {
  EXPECT_EQ(FailedError("").kind(), ErrorKind::kFailed);
  EXPECT_EQ(UsageError("").kind(), ErrorKind::kUsage);
  EXPECT_EQ(BadInputError("").kind(), ErrorKind::kBadInput);
  EXPECT_EQ(DeviceError("").kind(), ErrorKind::kDevice);
  EXPECT_EQ(CancelledError("").kind(), ErrorKind::kCancelled);
}

TEST(Errors, TakeWhatACatcherKnowsAndStayWhatTheyAre) {
  const auto with_context = [] {
    try {
      throw DeviceError({.problem = "no memory", .remedy = "close programs"});
    } catch (Error& error) {
      error.SetFile("a.h5");
      error.SetField("/attention/q");
      error.AddRemedy("the first 3 tokens are in a.h5");
      throw;
    }
  };
  EXPECT_THAT(with_context, ThrowsMessage<DeviceError>(
                                "a.h5: /attention/q: no memory; close programs; the first 3 tokens are in a.h5"));
}

// Of the shape of kernels/status.h, which this room does not see.
enum class Code { kOk, kInvalidArgument, kUnsupported, kOutOfMemory, kDeviceMissing, kDeviceError, kCancelled };
struct FakeStatus {
  Code state;
  bool ok() const { return state == Code::kOk; }
  Code code() const { return state; }
  std::string message() const { return "why"; }
};

TEST(CheckStatus, ThrowsTheKindOfErrorThatTheStatusSays) {
  CheckStatus(FakeStatus{Code::kOk});
  EXPECT_THAT([] { CheckStatus(FakeStatus{Code::kInvalidArgument}, "head 1:2"); },
              ThrowsMessage<UsageError>("head 1:2: why"));
  EXPECT_THROW(CheckStatus(FakeStatus{Code::kUnsupported}), UsageError);
  EXPECT_THROW(CheckStatus(FakeStatus{Code::kOutOfMemory}), DeviceError);
  EXPECT_THROW(CheckStatus(FakeStatus{Code::kDeviceMissing}), DeviceError);
  EXPECT_THROW(CheckStatus(FakeStatus{Code::kDeviceError}), FailedError);
  EXPECT_THROW(CheckStatus(FakeStatus{Code::kCancelled}), CancelledError);
}

}  // namespace
}  // namespace headscope
