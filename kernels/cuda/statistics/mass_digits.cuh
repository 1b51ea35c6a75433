// SPDX-License-Identifier: Apache-2.0
// Which of a row's largest probabilities reach a target: the search for the least of them, digit by digit, by one block
// of threads.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda_statistics.h"

namespace headscope::kernels::statistics {

inline constexpr int kRowThreads = 512;
inline constexpr int kRowWarps = kRowThreads / 32;

// Of masses, in 2^-56: a row's sum, 1 within rounding, has room for 128 times that, and what a term loses does not add
// up to 2^-37 in 2^20 of them.
inline constexpr float kMassUnit = 0x1p56f;
inline constexpr double kPerMassUnit = 0x1p-56;
// A probability's 31 bits below the sign, in digits.
inline constexpr int kDigitBits[] = {11, 10, 10};
inline constexpr int kMostDigits = 1 << kDigitBits[0];

// The mass and number of a row's probabilities by a digit's value; of the first digit one table serves all targets.
struct DigitTables {
  unsigned long long mass[kMostMassTargets << 10];
  int count[kMostMassTargets << 10];
};
static_assert(kMostMassTargets << 10 >= kMostDigits);

// What has been found of a target's bound: the bits above the digits to come, and what lies above them.
struct TargetBound {
  unsigned bits;
  bool reached;  // all of the row reaches the target
  unsigned long long mass_above;
  int count_above;
};

// The largest value of a digit whose mass, with all of the values above it and what lies above the digit, reaches the
// target; takes over what lies above that value. By the whole block; the outcome is in `bound` for all threads.
template <int kBits>
__device__ void FindDigit(const unsigned long long* mass, const int* count, unsigned long long target, int shift,
                          TargetBound* bound) {
  __shared__ unsigned long long mass_parts[kRowWarps];
  __shared__ int count_parts[kRowWarps];
  __shared__ TargetBound found;
  constexpr int kPerThread = (1 << kBits) / kRowThreads;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  // Thread t has the t-th highest values, the highest first.
  const int highest = (1 << kBits) - 1 - thread * kPerThread;
  unsigned long long own_mass = 0;
  int own_count = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    own_mass += mass[highest - i];
    own_count += count[highest - i];
  }
  unsigned long long mass_sum = own_mass;  // of the warp's threads up to this one
  int count_sum = own_count;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const unsigned long long mass_before = __shfl_up_sync(~0u, mass_sum, offset);
    const int count_before = __shfl_up_sync(~0u, count_sum, offset);
    if (lane >= offset) {
      mass_sum += mass_before;
      count_sum += count_before;
    }
  }
  __syncthreads();  // the parts and `found` of the call before have been read
  if (lane == 31) {
    mass_parts[warp] = mass_sum;
    count_parts[warp] = count_sum;
  }
  if (thread == 0) found = {bound->bits, false, bound->mass_above, bound->count_above};
  __syncthreads();
  unsigned long long above = bound->mass_above + mass_sum - own_mass;
  int number_above = bound->count_above + count_sum - own_count;
  for (int i = 0; i < warp; ++i) {
    above += mass_parts[i];
    number_above += count_parts[i];
  }
  if (above < target && above + own_mass >= target) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const unsigned long long with = above + mass[highest - i];
      if (with >= target) {
        found = {bound->bits | static_cast<unsigned>(highest - i) << shift, true, above, number_above};
        break;
      }
      above = with;
      number_above += count[highest - i];
    }
  }
  __syncthreads();
  *bound = found;
}

}  // namespace headscope::kernels::statistics
