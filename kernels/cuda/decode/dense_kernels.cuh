// SPDX-License-Identifier: Apache-2.0
// Dense decode in one launch. The floor is the bytes of K and V; the tensor cores do the arithmetic for all query heads
// of a group at once, so that a group of 8 costs what a group of 1 does.
//
// Each warp has a ring of its own in shared memory, filled by cp.async two tiles ahead and over the ends of passes, so
// that loads never wait for arithmetic, nor warps for each other. Blocks take nearly equal shares of all steps (see
// DenseParams), whatever the shape. Needs compute capability 8.0.
#pragma once

#include "async_copy.cuh"
#include "decode/dense_merge.cuh"
#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// Params: DenseParams, with sinks or without.
template <typename T, int D, typename Params>
__global__ void __launch_bounds__(kDenseWarps * 32, 1) DenseKernel(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32, step_tokens = p.warps * 16;
  const DenseShare share(p, static_cast<int>(blockIdx.x));
  const int begin = share.begin, end = share.end;
  T* const ring = reinterpret_cast<T*>(shared) + warp * p.stages * SharedTile<T, D>::kElements;
  const auto merged = reinterpret_cast<float(*)[D + 2]>(shared + static_cast<size_t>(p.warps * p.stages) *
                                                                     SharedTile<T, D>::kElements * sizeof(T));

  const uint64_t cache_policy = CachePolicy(p.leaves_cache_first != 0);
  DensePlace at{share.first_pass, begin - share.first_pass * p.steps}, ahead = at;
  int requested = begin, request_stage = 0;
  DensePass<T> source(p, at.pass);
  const auto request = [&] {
    const int first = ahead.step * step_tokens + warp * 16;
    if (requested < end && first < p.x.seq_k) {
      SharedTile<T, D>{ring + request_stage * SharedTile<T, D>::kElements}.Request(
          source.k + first * p.x.k_row, p.x.k_row, source.v + first * p.x.v_row, p.x.v_row,
          [&](int token) { return int64_t{min(token, p.x.seq_k - first - 1)}; }, cache_policy);
    }
    cuda::EndCopyGroup();
    if (++request_stage == p.stages) request_stage = 0;
    ++requested;
    const int pass = ahead.pass;
    ahead.Next(p);
    if (ahead.pass != pass && requested < end) source = DensePass<T>(p, ahead.pass);
  };
  for (int stage = 1; stage < p.stages; ++stage) request();

  WarpAttention<T, D, QueryFragment<T, D>> attention;
  int stage = 0;
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    if (step == begin || at.step == 0) {
      const DensePass<T> pass(p, at.pass);
      attention = {};
      attention.query.Load(static_cast<const T*>(p.x.q) + pass.sequence * p.x.q_batch + pass.head * p.x.q_head,
                           p.x.q_head, pass.heads);
      attention.out.Clear();
    }
    request();
    // All but the newest stages - 1 requests have arrived.
    if (p.stages == 3) {
      cuda::AwaitCopyGroups<2>();
    } else {
      cuda::AwaitCopyGroups<1>();
    }
    __syncwarp();
    const int first = at.step * step_tokens + warp * 16;
    if (first < p.x.seq_k) {
      attention.Step(SharedTile<T, D>{ring + stage * SharedTile<T, D>::kElements}, p.x.scale, p.soft_cap,
                     p.x.seq_k - first);
    }
    __syncwarp();  // before the next request overwrites the tile
    if (++stage == p.stages) stage = 0;
    const int pass = at.pass;
    at.Next(p);
    if (at.pass != pass || step + 1 == end) {
      const DensePass<T> done(p, pass);
      attention.Finish(done.heads, merged + warp * done.heads);
      __syncthreads();
      LeavePart<T, D>(p, done, share, pass, merged);
      __syncthreads();  // before the next part's results overwrite these
    }
  }
  const int last_pass = share.LastPass(p);
  if (!share.HasWhole(p, share.first_pass)) MergeSlice<T, D>(p, share.first_pass);
  if (last_pass != share.first_pass && !share.HasWhole(p, last_pass)) MergeSlice<T, D>(p, last_pass);
}

}  // namespace headscope::kernels::decode
