// SPDX-License-Identifier: Apache-2.0
// Round tick values, and numbers as axes show them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headscope::analysis {

// Multiples of 1, 2 or 5 times a power of ten inside [begin, end], at most `most` (>= 2) of them; whole numbers when
// `whole`.
std::vector<double> RoundTicks(double begin, double end, int32_t most, bool whole);

std::string GroupThousands(int64_t value);  // 131072 -> "131,072"

}  // namespace headscope::analysis
