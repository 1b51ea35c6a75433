// SPDX-License-Identifier: Apache-2.0
#include "support/failure.h"

#include <new>
#include <system_error>

#include "support/messages.h"

namespace headscope::app {

ExitCode ExitCodeOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kFailed:
      return kFailed;
    case ErrorKind::kUsage:
      return kWrongUsage;
    case ErrorKind::kBadInput:
      return kBadInput;
    case ErrorKind::kDevice:
      return kDeviceOrMemoryMissing;
    case ErrorKind::kCancelled:
      return kInterrupted;
  }
  return kFailed;
}

Failure FailureOf(const std::exception& error) {
  if (const auto* typed = dynamic_cast<const Error*>(&error)) {
    const ExitCode code = ExitCodeOf(typed->kind());
    return {code, code == kInterrupted ? "interrupted" : typed->what()};
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return {kDeviceOrMemoryMissing, kOutOfMemory};
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return {kDeviceOrMemoryMissing, kOutOfThreads};
  // Of a library's error that nobody translated, the sentence and not the trace of calls that may follow it.
  const std::string text = error.what();
  return {kFailed, text.substr(0, text.find('\n'))};
}

}  // namespace headscope::app
