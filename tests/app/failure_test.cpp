// SPDX-License-Identifier: Apache-2.0
// What each kind of failure says and exits with.
#include "support/failure.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/check_status.h"
#include "base/errors.h"
#include "kernels/status.h"
#include "support/messages.h"

namespace headscope::app {
namespace {

using kernels::Status;
using kernels::StatusCode;

struct Case {
  const char* name;
  std::function<void()> fail;
  ExitCode code;
  std::string sentence;
};

class FailureOfKind : public ::testing::TestWithParam<Case> {};

TEST_P(FailureOfKind, HasItsExitCodeAndOneSentence) {
  try {
    GetParam().fail();
    FAIL() << "nothing was thrown";
  } catch (const std::exception& error) {
    const Failure failure = FailureOf(error);
    EXPECT_EQ(failure.code, GetParam().code);
    EXPECT_EQ(failure.sentence, GetParam().sentence);
  }
}

const std::string kWhy = "head 1:2: why";
std::function<void()> OfStatus(StatusCode code) {
  return [code] { CheckStatus(Status(code, "why"), "head 1:2"); };
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FailureOfKind,
    ::testing::Values(
        Case{"Failed", [] { throw FailedError({.file = "a.h5", .problem = "the disk is full"}); }, kFailed,
             "a.h5: the disk is full"},
        Case{"Usage", [] { throw UsageError({.field = "--rows", .value = "x", .problem = "it must be all"}); },
             kWrongUsage, "--rows x: it must be all"},
        Case{"BadInput", [] { throw BadInputError({.file = "a.h5", .field = "/q", .problem = "is cut short"}); },
             kBadInput, "a.h5: /q: is cut short"},
        Case{"Device", [] { throw DeviceError("no GPU"); }, kDeviceOrMemoryMissing, "no GPU"},
        Case{"Cancelled", [] { throw CancelledError("cancelled"); }, kInterrupted, "interrupted"},
        Case{"Memory", [] { throw std::bad_alloc(); }, kDeviceOrMemoryMissing, kOutOfMemory},
        Case{"Threads", [] { throw std::system_error(EAGAIN, std::generic_category()); }, kDeviceOrMemoryMissing,
             kOutOfThreads},
        // A library's own, which nobody translated, are nobody's wrong usage.
        Case{"OutOfRange",
             [] {
               (void)std::string().at(1);
               throw std::logic_error("not reached");
             },
             kFailed, "basic_string::at: __n (which is 1) >= this->size() (which is 0)"},
        Case{"InvalidArgument", [] { throw std::invalid_argument("stoi"); }, kFailed, "stoi"},
        Case{"OfSeveralLines", [] { throw std::runtime_error("it failed\nframe #0: .."); }, kFailed, "it failed"},
        Case{"StatusArgument", OfStatus(StatusCode::kInvalidArgument), kWrongUsage, kWhy},
        Case{"StatusUnsupported", OfStatus(StatusCode::kUnsupported), kWrongUsage, kWhy},
        Case{"StatusMemory", OfStatus(StatusCode::kOutOfMemory), kDeviceOrMemoryMissing, kWhy},
        Case{"StatusNoDevice", OfStatus(StatusCode::kDeviceMissing), kDeviceOrMemoryMissing, kWhy},
        Case{"StatusDevice", OfStatus(StatusCode::kDeviceError), kFailed, kWhy},
        Case{"StatusCancelled", OfStatus(StatusCode::kCancelled), kInterrupted, "interrupted"}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace headscope::app
