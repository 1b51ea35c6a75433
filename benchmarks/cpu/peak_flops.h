// SPDX-License-Identifier: Apache-2.0
// The fp32 rate that one core reaches when it does nothing but multiply-adds in registers.
#pragma once

#include <string>

namespace headscope::benchmarks {

// Operations per second (a multiply-add is two) of the calling thread, best of a few runs of some 10 ms each.
double MeasurePeakFlops();

// The instruction set that it used, as Highway names it.
std::string PeakTarget();

}  // namespace headscope::benchmarks
