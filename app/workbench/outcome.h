// SPDX-License-Identifier: Apache-2.0
// What one thread makes for all who wait for it: the value, or why there is none.
#pragma once

#include <exception>
#include <future>
#include <string>

namespace headscope::app {

// The reason in words, and not as the exception: the last thread that holds a shared exception destroys it, by a count
// inside the C++ library that ThreadSanitizer cannot follow.
template <typename Value>
struct Outcome {
  Value value{};
  std::string error;  // empty: there is a value
};

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
    promise->set_value({{}, reason.empty() ? unknown : reason});
    throw;
  } catch (...) {
    forget();
    promise->set_value({{}, unknown});
    throw;
  }
  promise->set_value({value, {}});
  return value;
}

}  // namespace headscope::app
