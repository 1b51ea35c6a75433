// SPDX-License-Identifier: Apache-2.0
// Progress of long work.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace headscope {

// What is counted. A rate of percent says nothing to people, and bytes are told in the unit that suits them.
enum class ProgressUnit : uint8_t { kPercent, kTokens, kBytes, kHeads, kRuns };
// "%", "tokens", "bytes", ..
std::string_view NameOf(ProgressUnit unit);

struct Progress {
  std::string stage;  // "loading model", "prefill", "decode", "writing"
  int64_t done = 0;   // of `total`, in `unit`
  int64_t total = 0;
  ProgressUnit unit = ProgressUnit::kPercent;
  double rate = 0;          // unit per second over the last seconds; 0 while unknown
  double remaining_s = -1;  // estimate; -1 while unknown
};
using ProgressFunction = std::function<void(const Progress&)>;

}  // namespace headscope
