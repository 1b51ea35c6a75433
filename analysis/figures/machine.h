// SPDX-License-Identifier: Apache-2.0
// What this machine does, measured when a figure is made: fp32.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::analysis {

struct Machine {
  double multiply_adds = 0, elements = 0;  // a second
};

// Multiply-adds of the score kernel on keys in the cache, and reading of what is in no cache, by so many threads
// together.
Machine MeasureMachine(int32_t num_threads = 1);

// Reads every element.
void ReadAll(const std::vector<float>& values);
void ReadAll(const float* values, int64_t count);

}  // namespace headscope::analysis
