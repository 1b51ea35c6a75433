// SPDX-License-Identifier: Apache-2.0
// Where a probability lies on the palette. The canvas' fragment shader, its colour bar and profiles, rendered pictures
// and the tests use the same functions.
#pragma once

#include <vector>

namespace headscope::analysis {

// What of the probabilities the palette spans, as log2 p. Linear scales span [2^minimum, 2^maximum]; from 0 on where
// the minimum is -infinity.
struct ValueRange {
  float minimum_log2 = -16;
  float maximum_log2 = 0;
  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

// Position on the palette in [0, 1] of a probability given as log2 p; values outside the range are clamped.
float ScalePosition(float log2_p, const ValueRange& range, bool logarithmic);
// The log2 p at a position: the inverse of ScalePosition inside the range.
float ScaleValue(float position, const ValueRange& range, bool logarithmic);
// Probabilities to mark on a bar of the range: powers of ten on a logarithmic scale (of less than two of them, what
// lies between as well: 1, 2 and 5 times one), multiples of 1, 2 or 5 times a power of ten on a linear one. About
// `most`.
std::vector<double> RoundValues(const ValueRange& range, bool logarithmic, int most);

}  // namespace headscope::analysis
