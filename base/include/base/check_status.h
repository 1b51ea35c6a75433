// SPDX-License-Identifier: Apache-2.0
// The one place where a status becomes an exception. kernels/, which stands alone, never throws and says by a status
// (kernels/status.h) how a call ended; whoever calls it for a person hands that status on as an error.
#pragma once

#include <string>

#include "base/errors.h"

namespace headscope {

// Throws the error of the kind that `status` says, unless it is ok. The sentence begins with `where`, unless that is
// empty: what was being done, and on which head of which file. A template, because this room lies below the statuses'.
template <typename Status>
void CheckStatus(const Status& status, const std::string& where = "") {
  if (!status.ok()) CheckStatus(status, Fault{.file = where});
}

// The same where more is known than what was being done: the status's message follows what `known` has as a problem.
template <typename Status>
void CheckStatus(const Status& status, const Fault& known) {
  using Code = decltype(status.code());
  const auto fault = [&] {
    Fault whole = known;
    whole.problem += status.message();
    return whole;
  };
  switch (status.code()) {
    case Code::kOk:
      return;
    case Code::kInvalidArgument:
    case Code::kUnsupported:
      throw UsageError(fault());
    case Code::kOutOfMemory:
    case Code::kDeviceMissing:
      throw DeviceError(fault());
    case Code::kDeviceError:
      throw FailedError(fault());
    case Code::kCancelled:
      throw CancelledError(fault());
  }
}

// The status that says what kind of failure an error is, for code that tells of failures by statuses. CheckStatus makes
// an error of the same kind of it, but of a bad input a wrong usage: statuses know no files.
template <typename Status>
Status StatusOf(const Error& error) {
  using Code = decltype(Status().code());
  switch (error.kind()) {
    case ErrorKind::kUsage:
    case ErrorKind::kBadInput:
      return {Code::kInvalidArgument, error.what()};
    case ErrorKind::kDevice:
      return {Code::kDeviceMissing, error.what()};
    case ErrorKind::kCancelled:
      return {Code::kCancelled, error.what()};
    case ErrorKind::kFailed:
      break;
  }
  return {Code::kDeviceError, error.what()};
}

}  // namespace headscope
