// SPDX-License-Identifier: Apache-2.0
// XAttention's second launch: the rows' denominators, and the mass of every block. See antidiagonal.h.
#include <cuda_runtime.h>

#include <algorithm>

#include "dependent_launch.cuh"
#include "fast_math.cuh"
#include "select/antidiagonal.h"

namespace headscope::kernels::selection {
namespace {

constexpr int kMassThreads = 256;
constexpr int kMostGroups = 32;  // of a block
constexpr float kInfinity = __builtin_huge_valf();

// Adds terms in base 2 to a reference and a sum.
template <int kTerms>
__device__ __forceinline__ void AddTerms(const float (&terms)[kTerms], float2& state) {
  float best = state.x;
#pragma unroll
  for (const float term : terms) best = fmaxf(best, term);
  const float reference = best == -kInfinity ? 0.0f : best;
  float sum = state.y * cuda::Exp2(state.x - reference);
#pragma unroll
  for (const float term : terms) sum += cuda::Exp2(term - reference);
  state = {best, sum};
}

// A thread block per row block of a list.
__global__ void __launch_bounds__(kMassThreads) BlockMassKernel(const AntidiagonalParams p) {
  __shared__ float2 states[kMassThreads];
  __shared__ __align__(16) float denominators[kMostGroups];
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int32_t num_row_blocks = p.NumRowBlocks();
  const int64_t list = blockIdx.x / static_cast<unsigned>(num_row_blocks);
  // The longest first.
  const int32_t row_block =
      num_row_blocks - 1 - static_cast<int32_t>(blockIdx.x % static_cast<unsigned>(num_row_blocks));
  const int groups = p.GroupsPerBlock();
  const int32_t last_row = min((row_block + 1) * kAntidiagonalBlock, p.seq_q) - 1;
  const int32_t num_keys = (p.first_position + last_row) / kAntidiagonalBlock + 1;
  const int valid = min(groups, p.NumQueryGroups() - row_block * groups);
  const float* const partials = p.partials + list * p.PartialsPerList() + p.PartialsBefore(row_block);
  const int thread = static_cast<int>(threadIdx.x);

  // Neighbouring threads take neighbouring groups of a key block.
  constexpr int kAtOnce = 4;
  const int32_t num_partials = num_keys * groups;
  float2 state = {-kInfinity, 0.0f};
  for (int32_t first = thread; first < num_partials; first += kAtOnce * kMassThreads) {
    float terms[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t at = first + i * kMassThreads;
      terms[i] = at < num_partials ? partials[at] : -kInfinity;
    }
    AddTerms(terms, state);
  }
  states[thread] = state;
  __syncthreads();
  if (thread < groups) {
    float2 merged = states[thread];
    for (int other = thread + groups; other < kMassThreads; other += groups) {
      const float2 part = states[other];
      const float best = fmaxf(merged.x, part.x);
      const float reference = best == -kInfinity ? 0.0f : best;
      merged = {best, merged.y * cuda::Exp2(merged.x - reference) + part.y * cuda::Exp2(part.x - reference)};
    }
    // A group that is not there has no mass.
    denominators[thread] = thread < valid ? merged.x + __log2f(merged.y) : kInfinity;
  }
  __syncthreads();

  float* const masses = p.masses + (list * num_row_blocks + row_block) * p.NumKeyBlocks();
  for (int32_t key = thread; key < num_keys; key += kMassThreads) {
    const float* const of_key = partials + int64_t{key} * groups;
    float mass = 0;
    for (int g = 0; g < groups; g += 2) {
      const float2 terms = *reinterpret_cast<const float2*>(of_key + g);
      mass += cuda::Exp2(terms.x - denominators[g]) + cuda::Exp2(terms.y - denominators[g + 1]);
    }
    masses[key] = mass;
  }
}

}  // namespace

cudaError_t LaunchBlockMass(const AntidiagonalParams& params, cudaStream_t stream) {
  const auto num_blocks = static_cast<unsigned>(int64_t{params.num_lists} * params.NumRowBlocks());
  return cuda::LaunchDependent(BlockMassKernel, num_blocks, kMassThreads, 0, stream, params);
}

}  // namespace headscope::kernels::selection
