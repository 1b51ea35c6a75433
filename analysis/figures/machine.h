// SPDX-License-Identifier: Apache-2.0
// What this machine does, measured when a figure is made: one thread, fp32.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace headscope::analysis {

struct Machine {
  double multiply_adds = 0, elements = 0;  // a second
};

// Multiply-adds of the score kernel on keys in the cache, and reading of what is in no cache.
Machine MeasureMachine();

double SecondsOf(const std::function<void()>& work);  // once
// Reads every element.
void ReadAll(const std::vector<float>& values);

}  // namespace headscope::analysis
