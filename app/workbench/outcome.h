// SPDX-License-Identifier: Apache-2.0
// What one thread makes for all who wait for it: the value, or why there is none.
#pragma once

#include <exception>
#include <future>
#include <optional>
#include <string>

#include "analysis/types/printable.h"
#include "base/errors.h"

namespace headscope::app {

// Why there is no value: an error's parts and kind, and not the exception, because the last thread that holds a shared
// exception destroys it, by a count inside the C++ library that ThreadSanitizer cannot follow.
struct Refused {
  Fault fault;
  ErrorKind kind = ErrorKind::kFailed;

  // Throws the error again, as what it was.
  [[noreturn]] void Throw() const {
    switch (kind) {
      case ErrorKind::kUsage:
        throw UsageError(fault);
      case ErrorKind::kBadInput:
        throw BadInputError(fault);
      case ErrorKind::kDevice:
        throw DeviceError(fault);
      case ErrorKind::kCancelled:
        throw CancelledError(fault);
      case ErrorKind::kFailed:
        break;
    }
    throw FailedError(fault);
  }
};

// `unknown`: what to say of an exception without words.
inline Refused RefusedBy(const std::exception& thrown, const std::string& unknown) {
  if (const auto* const typed = dynamic_cast<const Error*>(&thrown)) return {typed->fault(), typed->kind()};
  const std::string reason = thrown.what();
  return {{.problem = reason.empty() ? unknown : reason}, ErrorKind::kFailed};
}

template <typename Value>
struct Outcome {
  Value value{};
  std::optional<Refused> refused = {};

  // The value, or the error.
  const Value& Get() const {
    if (refused) refused->Throw();
    return value;
  }

  // The error in words that can be shown, whatever file they quote; empty where there is a value.
  std::string Sentence() const { return refused ? analysis::Printable(SentenceOf(refused->fault)) : std::string(); }
};

// make()'s value, or why there is none.
template <typename Make>
auto OutcomeOf(Make&& make) -> Outcome<decltype(make())> {
  try {
    return {make()};
  } catch (const std::exception& thrown) {
    return {{}, RefusedBy(thrown, "It failed for an unknown reason.")};
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
  } catch (const std::exception& thrown) {
    forget();
    promise->set_value({{}, RefusedBy(thrown, unknown)});
    throw;
  } catch (...) {
    forget();
    promise->set_value({{}, Refused{{.problem = unknown}}});
    throw;
  }
  promise->set_value({value});
  return value;
}

}  // namespace headscope::app
