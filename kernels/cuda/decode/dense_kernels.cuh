// Dense decode in one launch. The floor is the bytes of K and V; the tensor cores do the arithmetic for all query heads
// of a group at once, so that a group of 8 costs what a group of 1 does.
//
// Each warp has a ring of its own in shared memory, filled by cp.async two tiles ahead and over the ends of passes, so
// that loads never wait for arithmetic, nor warps for each other. Blocks take equal shares of all steps (see
// DenseParams): no block is left with a longer tail than another, whatever the shape. Needs compute capability 8.0.
#pragma once

#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// The block whose share has this step; its share begins at ShareBegin(p, block).
__device__ __forceinline__ int64_t ShareBegin(const DenseParams& p, int block) {
  return int64_t{p.passes} * p.steps * block / p.blocks;
}
__device__ __forceinline__ int BlockOf(const DenseParams& p, int64_t step) {
  const int64_t total = int64_t{p.passes} * p.steps;
  return static_cast<int>(((step + 1) * p.blocks + total - 1) / total - 1);
}

// One pass as a warp sees it.
template <typename T>
struct DensePass {
  const T* k;
  const T* v;
  int64_t query_head;  // the first, among all sequences'
  int sequence, head;  // of the batch; the first query head of the sequence
  int heads;

  __device__ __forceinline__ DensePass(const DenseParams& p, int pass) {
    const DecodeOperands& x = p.x;
    const int list = pass / p.passes_per_list, first = pass % p.passes_per_list * p.heads_per_pass;
    const int kv_head = list % x.num_kv_heads;
    sequence = list / x.num_kv_heads;
    head = kv_head * x.group + first;
    heads = min(p.heads_per_pass, x.group - first);
    query_head = int64_t{sequence} * x.num_kv_heads * x.group + head;
    k = static_cast<const T*>(x.k) + sequence * x.k_batch + kv_head * x.k_head;
    v = static_cast<const T*>(x.v) + sequence * x.v_batch + kv_head * x.v_head;
  }
};

// A part of a pass in memory: weighted V of kMaxDenseGroup heads, then their (max, sum).
template <int D>
constexpr int kPartFloats = kMaxDenseGroup*(D + 2);

// Merges a pass's parts into its outputs. `factors` has room for heads * parts floats.
template <typename T, int D>
__device__ __forceinline__ void MergeParts(const DenseParams& p, const DensePass<T>& pass, const float* partial,
                                           int parts, float* factors) {
  const int lane = threadIdx.x % 32;
  const auto softmax = [&](int part, int h) {
    return __ldcg(reinterpret_cast<const float2*>(partial + part * kPartFloats<D> + kMaxDenseGroup * D) + h);
  };
  // A part's factor takes its weighted V to the output.
  for (int h = threadIdx.x / 32; h < pass.heads; h += kDenseWarps) {
    float best = kNegativeInfinity, sum = 0;
    for (int part = lane; part < parts; part += 32) best = fmaxf(best, softmax(part, h).x);
    best = WarpMax(best);
    for (int part = lane; part < parts; part += 32) {
      const float2 theirs = softmax(part, h);
      sum += theirs.y * __expf(theirs.x - best);
    }
    sum = WarpSum(sum);
    for (int part = lane; part < parts; part += 32) factors[h * parts + part] = __expf(softmax(part, h).x - best) / sum;
    if (p.lse != nullptr && lane == 0) p.lse[pass.query_head + h] = best + logf(sum);
  }
  __syncthreads();
  for (int at = 4 * static_cast<int>(threadIdx.x); at < pass.heads * D; at += 4 * kDenseWarps * 32) {
    const int h = at / D, d = at % D;
    float total[4] = {};
#pragma unroll 8
    for (int part = 0; part < parts; ++part) {
      const float4 v = __ldcg(reinterpret_cast<const float4*>(partial + part * kPartFloats<D> + at));
      const float factor = factors[h * parts + part];
      total[0] += v.x * factor;
      total[1] += v.y * factor;
      total[2] += v.z * factor;
      total[3] += v.w * factor;
    }
    T* o = static_cast<T*>(p.x.o) + pass.sequence * p.x.o_batch + (pass.head + h) * p.x.o_head + d;
#pragma unroll
    for (int i = 0; i < 4; ++i) Store(o + i, total[i]);
  }
}

// The warps' results of a block's part of a pass: the output if nobody shares the pass; else a partial result, and the
// last block to leave one merges them all.
template <typename T, int D>
__device__ __forceinline__ void FinishPart(const DenseParams& p, int number, float (*merged)[D + 2]) {
  __shared__ int is_last;
  const DensePass<T> pass(p, number);
  const int64_t begin = int64_t{number} * p.steps;
  const int first = BlockOf(p, begin), parts = BlockOf(p, begin + p.steps - 1) - first + 1;
  float* partial = p.partial + int64_t{number} * p.parts * kPartFloats<D>;
  float* mine = partial + (static_cast<int>(blockIdx.x) - first) * kPartFloats<D>;
  for (int at = threadIdx.x; at < pass.heads * D; at += kDenseWarps * 32) {
    const int h = at / D, d = at % D;
    float best, sum;
    const float total = MergeWarps<D, kDenseWarps>(merged[h], pass.heads * (D + 2), d, &best, &sum);
    if (parts == 1) {
      Store(static_cast<T*>(p.x.o) + pass.sequence * p.x.o_batch + (pass.head + h) * p.x.o_head + d, total / sum);
      if (p.lse != nullptr && d == 0) p.lse[pass.query_head + h] = best + logf(sum);
    } else {
      mine[at] = total;
      if (d == 0) reinterpret_cast<float2*>(mine + kMaxDenseGroup * D)[h] = make_float2(best, sum);
    }
  }
  if (parts == 1) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // the part, of all threads, before the count, for whoever reads it
    is_last = atomicAdd(p.finished + number, 1u) + 1 == static_cast<uint32_t>(parts);
    if (is_last) p.finished[number] = 0;  // ready for the next call
    __threadfence();
  }
  __syncthreads();
  if (is_last) MergeParts<T, D>(p, pass, partial, parts, merged[0]);
}

// Where a warp's requests or its arithmetic stand: a step of a pass.
struct DensePlace {
  int pass, step;

  __device__ __forceinline__ void Next(const DenseParams& p) {
    if (++step == p.steps) {
      step = 0;
      ++pass;
    }
  }
};

template <typename T, int D>
__global__ void __launch_bounds__(kDenseWarps * 32, 2) DenseKernel(const __grid_constant__ DenseParams p) {
  extern __shared__ __align__(128) char shared[];
  const int warp = threadIdx.x / 32;
  const int64_t begin = ShareBegin(p, blockIdx.x), end = ShareBegin(p, blockIdx.x + 1);
  T* ring = reinterpret_cast<T*>(shared) + warp * p.stages * SharedTile<T, D>::kElements;
  auto merged = reinterpret_cast<float(*)[D + 2]>(shared + size_t{kDenseWarps} * p.stages *
                                                               SharedTile<T, D>::kElements * sizeof(T));

  const DensePlace start{static_cast<int>(begin / p.steps), static_cast<int>(begin % p.steps)};
  DensePlace ahead = start;
  int64_t requested = begin;
  int request_stage = 0;
  DensePass<T> source(p, start.pass);
  const auto request = [&] {
    const int first = ahead.step * kDenseStep + warp * 16;
    if (requested < end && first < p.x.seq_k) {
      SharedTile<T, D>{ring + request_stage * SharedTile<T, D>::kElements}.Request(
          source.k + first * p.x.k_row, p.x.k_row, source.v + first * p.x.v_row, p.x.v_row,
          [&](int token) { return int64_t{min(token, p.x.seq_k - first - 1)}; });
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (++request_stage == p.stages) request_stage = 0;
    ++requested;
    const int pass = ahead.pass;
    ahead.Next(p);
    if (ahead.pass != pass && requested < end) source = DensePass<T>(p, ahead.pass);
  };
  for (int stage = 1; stage < p.stages; ++stage) request();

  WarpAttention<T, D, QueryFragment<T, D>> attention;
  DensePlace at = start;
  int stage = 0;
  for (int64_t step = begin; step < end; ++step) {
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
      asm volatile("cp.async.wait_group 2;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    }
    __syncwarp();
    const int first = at.step * kDenseStep + warp * 16;
    if (first < p.x.seq_k) {
      attention.Step(SharedTile<T, D>{ring + stage * SharedTile<T, D>::kElements}, p.x.scale, p.soft_cap,
                     p.x.seq_k - first);
    }
    __syncwarp();  // before the next request overwrites the tile
    if (++stage == p.stages) stage = 0;
    const int pass = at.pass;
    at.Next(p);
    if (at.pass != pass || step + 1 == end) {
      const int heads = DensePass<T>(p, pass).heads;
      attention.Finish(heads, merged + warp * heads);
      __syncthreads();
      FinishPart<T, D>(p, pass, merged);
      __syncthreads();  // before the next part's results overwrite these
    }
  }
}

}  // namespace headscope::kernels::decode
