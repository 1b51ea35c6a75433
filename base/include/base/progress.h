// SPDX-License-Identifier: Apache-2.0
// Progress of long work.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace headscope {

struct Progress {
  std::string stage;  // "loading model", "prefill", "decode", "writing"
  int64_t done = 0;   // of `total`, in `unit`
  int64_t total = 0;
  std::string unit;         // "tokens", "bytes"
  double rate = 0;          // unit per second over the last seconds; 0 while unknown
  double remaining_s = -1;  // estimate; -1 while unknown
};
using ProgressFunction = std::function<void(const Progress&)>;

}  // namespace headscope
