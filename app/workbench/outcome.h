// SPDX-License-Identifier: Apache-2.0
// What one thread makes for all who wait for it: the value, or why there is none.
#pragma once

#include <exception>
#include <future>
#include <string>

#include "analysis/types/printable.h"
#include "base/errors.h"

namespace headscope::app {

// The reason in words, and not as the exception: the last thread that holds a shared exception destroys it, by a count
// inside the C++ library that ThreadSanitizer cannot follow.
template <typename Value>
struct Outcome {
  Value value{};
  std::string error;  // empty: there is a value
  ErrorKind kind = ErrorKind::kFailed;

  // The value, or the error, as what it is.
  const Value& Get() const {
    if (error.empty()) return value;
    switch (kind) {
      case ErrorKind::kUsage:
        throw UsageError(error);
      case ErrorKind::kBadInput:
        throw BadInputError(error);
      case ErrorKind::kDevice:
        throw DeviceError(error);
      case ErrorKind::kCancelled:
        throw CancelledError(error);
      case ErrorKind::kFailed:
        break;
    }
    throw FailedError(error);
  }
};

// make()'s value, or why there is none.
template <typename Make>
auto OutcomeOf(Make&& make) -> Outcome<decltype(make())> {
  try {
    return {make(), {}, {}};
  } catch (const std::exception& refused) {
    const std::string reason = analysis::Printable(refused.what());  // it may quote a file
    const auto* const typed = dynamic_cast<const Error*>(&refused);
    return {{},
            reason.empty() ? "It failed for an unknown reason." : reason,
            typed != nullptr ? typed->kind() : ErrorKind::kFailed};
  }
}

// make()'s value, told to those who wait on `promise`. Where it throws: forget(), so that the next one to ask tries
// again, then the reason to those who wait now (`unknown` where the exception has no words), and the exception to the
// caller.
template <typename Value, typename Make, typename Forget>
Value MakeForAll(std::promise<Outcome<Value>>* promise, const std::string& unknown, Make&& make, Forget&& forget) {
  Value value;
  try {
    value = make();
  } catch (const std::exception& refused) {
    forget();
    const std::string reason = refused.what();
    const auto* const typed = dynamic_cast<const Error*>(&refused);
    promise->set_value({{}, reason.empty() ? unknown : reason, typed != nullptr ? typed->kind() : ErrorKind::kFailed});
    throw;
  } catch (...) {
    forget();
    promise->set_value({{}, unknown, ErrorKind::kFailed});
    throw;
  }
  promise->set_value({value, {}, {}});
  return value;
}

}  // namespace headscope::app
