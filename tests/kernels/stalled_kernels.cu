// SPDX-License-Identifier: Apache-2.0
// The Hopper kernels for 128 components, 16-bit and FP8, and those for heads that keep everything, with two of the
// three loader warps held up at some steps: linked in place of the library's, whose units these are.
#include "fp8/fp8_traits.cuh"
#include "hopper/loader.cuh"
#include "hopper/piece_traits.cuh"

namespace headscope::kernels {

__device__ unsigned int stops_of_loaders;

// The ring lets the other roles go on for some 16 steps, 20 us, without a warp that waits longer than that.
__device__ inline void HoldUp(int warp, uint32_t step) {
  if (warp == 0 || step % 24 != 4u * static_cast<uint32_t>(warp)) return;
  if (threadIdx.x % 32 == 0) atomicAdd(&stops_of_loaders, 1);
  __nanosleep(400'000);
}

struct HeldUp {
  __device__ static void Wait(int warp, uint32_t step) { HoldUp(warp, step); }
};
template <>
struct hopper::LoaderStall<hopper::Traits<cutlass::bfloat16_t, 128, 128, 128, 2>> : HeldUp {};
template <>
struct hopper::LoaderStall<hopper::DenseTraits<cutlass::bfloat16_t>> : HeldUp {};
template <>
struct hopper::LoaderStall<hopper::PieceTraits<cutlass::bfloat16_t>> : HeldUp {};
template <>
struct hopper::LoaderStall<fp8::ListTraits> : HeldUp {};
template <>
struct hopper::LoaderStall<fp8::DenseTraits> : HeldUp {};

}  // namespace headscope::kernels

#include "fp8/attend_fp8_dense.cu"      // NOLINT(bugprone-suspicious-include)
#include "fp8/attend_fp8_lists.cu"      // NOLINT(bugprone-suspicious-include)
#include "hopper/attend_d128.cu"        // NOLINT(bugprone-suspicious-include)
#include "hopper/attend_dense_d128.cu"  // NOLINT(bugprone-suspicious-include)
#include "hopper/attend_dense_d64.cu"   // NOLINT(bugprone-suspicious-include)

namespace headscope::kernels::testing {

unsigned int TakeStopsOfLoaders() {
  unsigned int stops = 0;
  constexpr unsigned int kNone = 0;
  if (cudaMemcpyFromSymbol(&stops, stops_of_loaders, sizeof stops) != cudaSuccess ||
      cudaMemcpyToSymbol(stops_of_loaders, &kNone, sizeof kNone) != cudaSuccess)
    return 0;
  return stops;
}

}  // namespace headscope::kernels::testing
