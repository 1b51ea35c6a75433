// SPDX-License-Identifier: Apache-2.0
// Round numbers to write along an axis: the one rule of the canvas, colour bars and pictures.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::analysis {

// The least of 1, 2 and 5 times the powers of ten that is not below `least` > 0.
double RoundStep(double least);

// The multiples of step > 0 in [begin, end], ends included up to rounding; 0 is not -0.
std::vector<double> Multiples(double step, double begin, double end);

// Multiples of the least round step that leaves at most `most` >= 1 of them in [begin, end]; a step of 1 at least when
// `whole`.
std::vector<double> RoundTicks(double begin, double end, int32_t most, bool whole);

}  // namespace headscope::analysis
