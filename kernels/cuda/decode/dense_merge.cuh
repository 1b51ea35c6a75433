// SPDX-License-Identifier: Apache-2.0
// How the blocks' parts of a pass of dense decode become its outputs. A block sends its part as it is done with it and
// goes on. When its share is done it merges a slice of the columns of each pass that it shares, so that what all have
// sent is read in one trip to memory, by all of them side by side. They wait for each other, and are launched together.
#pragma once

#include "decode/message.cuh"
#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// A block's share of all passes' steps.
struct DenseShare {
  int begin, end, first_pass;

  __device__ __forceinline__ DenseShare(const DenseParams& p, int block)
      : begin(BeginOf(p, block)), end(BeginOf(p, block + 1)), first_pass(Quotient(begin, p.by_steps)) {}

  __device__ __forceinline__ static int BeginOf(const DenseParams& p, int block) {
    if (p.blocks_per_pass == 0) return BeginAmong(p, block);
    const int pass = Quotient(block, p.by_blocks_per_pass);
    return pass * p.steps + BeginAmong(p, block - pass * p.blocks_per_pass);
  }
  // The block whose share has this step.
  __device__ __forceinline__ static int BlockOf(const DenseParams& p, int step) {
    if (p.blocks_per_pass == 0) return OneOf(p, step);
    const int pass = Quotient(step, p.by_steps);
    return pass * p.blocks_per_pass + OneOf(p, step - pass * p.steps);
  }
  __device__ __forceinline__ bool HasWhole(const DenseParams& p, int pass) const {
    return begin <= pass * p.steps && end - p.steps >= pass * p.steps;
  }
  // The number of the pass that the share ends in.
  __device__ __forceinline__ int LastPass(const DenseParams& p) const { return Quotient(end - 1, p.by_steps); }

 private:
  // The same among the blocks that share a pass, or among all where passes are not shared out apart.
  __device__ __forceinline__ static int BeginAmong(const DenseParams& p, int block) {
    return block * p.share + min(block, p.longer);
  }
  __device__ __forceinline__ static int OneOf(const DenseParams& p, int step) {
    const int of_longer = p.longer * (p.share + 1);
    return step < of_longer ? Quotient(step, p.by_longer_share) : p.longer + Quotient(step - of_longer, p.by_share);
  }
};

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

// One pass: where its rows are.
template <typename T>
struct DensePass {
  const T* k;
  const T* v;
  int64_t query_head;  // the first, among all sequences'
  int sequence, head;  // of the batch; the first query head of the sequence
  int heads;

  __device__ __forceinline__ DensePass(const DenseParams& p, int pass) {
    const DecodeOperands& x = p.x;
    const int list = Quotient(pass, p.by_passes_per_list);
    const int first = (pass - list * p.passes_per_list) * p.heads_per_pass;
    sequence = Quotient(list, p.by_kv_heads);
    const int kv_head = list - sequence * x.num_kv_heads;
    head = kv_head * x.group + first;
    heads = min(p.heads_per_pass, x.group - first);
    query_head = int64_t{sequence} * x.num_kv_heads * x.group + head;
    k = static_cast<const T*>(x.k) + sequence * x.k_batch + kv_head * x.k_head;
    v = static_cast<const T*>(x.v) + sequence * x.v_batch + kv_head * x.v_head;
  }
};

// Four neighbouring components of a head's output over some tokens: weighted V, and the softmax that weighs it.
struct PartialSum {
  float v[4] = {};
  float best = kNegativeInfinity, sum = 0;

  __device__ __forceinline__ void Add(const PartialSum& other) {
    const float higher = fmaxf(best, other.best);
    const float before = Factor(best, higher), now = Factor(other.best, higher);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = v[i] * before + other.v[i] * now;
    sum = sum * before + other.sum * now;
    best = higher;
  }
  // The same of several at once, whose factors do not wait for each other.
  template <int kCount>
  __device__ __forceinline__ void Add(const PartialSum (&others)[kCount]) {
    float higher = best;
#pragma unroll
    for (int i = 0; i < kCount; ++i) higher = fmaxf(higher, others[i].best);
    const float before = Factor(best, higher);
#pragma unroll
    for (int c = 0; c < 4; ++c) v[c] *= before;
    sum *= before;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float now = Factor(others[i].best, higher);
#pragma unroll
      for (int c = 0; c < 4; ++c) v[c] += others[i].v[c] * now;
      sum += others[i].sum * now;
    }
    best = higher;
  }
  // The sum of `width` neighbouring lanes' sums, in all of them; a power of two. All lanes of a warp call it together.
  __device__ __forceinline__ void AddLanes(int width) {
    float higher = best;
#pragma unroll 1
    for (int far = width / 2; far > 0; far /= 2) higher = fmaxf(higher, __shfl_xor_sync(kAllLanes, higher, far));
    const float mine = Factor(best, higher);
#pragma unroll
    for (int c = 0; c < 4; ++c) v[c] *= mine;
    sum *= mine;
    best = higher;
#pragma unroll 1
    for (int far = width / 2; far > 0; far /= 2) {
#pragma unroll
      for (int c = 0; c < 4; ++c) v[c] += __shfl_xor_sync(kAllLanes, v[c], far);
      sum += __shfl_xor_sync(kAllLanes, sum, far);
    }
  }

 private:
  // -inf: there was no token, or none but with a NaN, which the sum then has.
  __device__ __forceinline__ static float Factor(float best, float higher) {
    return best == kNegativeInfinity ? 0.0f : __expf(best - higher);
  }
};

// The largest score of a query head: a maximum passes over NaN, which the sum then has.
__device__ __forceinline__ float LargestScore(float best, float sum) {
  return isnan(sum) ? sum : best;
}

// The whole of a query head's softmax, its sink among the terms where there are sinks.
template <typename Params>
__device__ __forceinline__ PartialSum WithSink(PartialSum all, const Params& p, int head) {
  if constexpr (requires { p.sinks; }) {
    if (p.sinks.count > 0) all.Add({{0.0f, 0.0f, 0.0f, 0.0f}, p.sinks.logit[head], 1.0f});
  }
  return all;
}

// A column, four components of a head, over the warps' results of one part of a pass: merged [warps, heads].
template <int D>
__device__ __forceinline__ PartialSum SumOfWarps(const float (*merged)[D + 2], int warps, int heads, int column) {
  PartialSum of_warps[kDenseWarps];
#pragma unroll
  for (int w = 0; w < kDenseWarps; ++w) {
    if (w >= warps) continue;
    const float* of_warp = merged[w * heads + 4 * column / D];
    const auto* v = reinterpret_cast<const float2*>(of_warp + 4 * column % D);  // a row is an even number of floats
    const float2 low = v[0], high = v[1], softmax = *reinterpret_cast<const float2*>(of_warp + D);
    of_warps[w] = {{low.x, low.y, high.x, high.y}, softmax.x, softmax.y};
  }
  PartialSum all;
  all.Add(of_warps);
  return all;
}

// Where a part is sent, column by column: a column is four components of a head, of whichever head_dim.
struct DenseMessage {
  uint4* values;
  uint2* softmax;

  // `last`: of two messages of a block, the one of its last pass.
  __device__ __forceinline__ DenseMessage(const DenseParams& p, int block, bool last, int columns, int column) {
    char* const message = p.messages + (int64_t{block} * 2 + (last ? 1 : 0)) * p.message_bytes;
    values = reinterpret_cast<uint4*>(message) + column;
    softmax = reinterpret_cast<uint2*>(message + columns * 16) + column;
  }

  __device__ __forceinline__ void Send(const PartialSum& part) const {
    Write({WordOf(part.v[0]), WordOf(part.v[1]), WordOf(part.v[2]), WordOf(part.v[3])},
          {WordOf(part.best), WordOf(part.sum)});
  }
  __device__ __forceinline__ void Erase() const { Write({0, 0, 0, 0}, {0, 0}); }

  // As far as it has arrived.
  struct Words {
    uint4 values;
    uint2 softmax;

    __device__ __forceinline__ bool AreAllThere() const {
      return values.x != 0 && values.y != 0 && values.z != 0 && values.w != 0 && softmax.x != 0 && softmax.y != 0;
    }
    __device__ __forceinline__ PartialSum Part() const {
      return {{FloatOf(values.x), FloatOf(values.y), FloatOf(values.z), FloatOf(values.w)},
              FloatOf(softmax.x),
              FloatOf(softmax.y)};
    }
  };
  __device__ __forceinline__ Words Read() const { return {ReadWords(values), ReadWords(softmax)}; }

 private:
  __device__ __forceinline__ void Write(uint4 four, uint2 two) const {
    WriteWords(values, four);
    WriteWords(softmax, two);
  }
};

// Writes four components of the pass's output, and the log-sum-exp with a head's first ones.
template <typename T, int D, typename Params, typename Pass>
__device__ __forceinline__ void StoreColumn(const Params& p, const Pass& pass, int column, const PartialSum& of_keys) {
  const int h = 4 * column / D, d = 4 * column % D;
  const PartialSum all = WithSink(of_keys, p, pass.head + h);
  if (p.row_max != nullptr && d == 0) p.row_max[pass.query_head + h] = LargestScore(of_keys.best, of_keys.sum);
  T* const o = static_cast<T*>(p.x.o) + pass.sequence * p.x.o_batch + (pass.head + h) * p.x.o_head + d;
#pragma unroll
  for (int i = 0; i < 4; ++i) Store(o + i, all.v[i] / all.sum);
  if (p.lse != nullptr && d == 0) p.lse[pass.query_head + h] = all.best + logf(all.sum);
}

// The warps' results of the block's part of a pass, all in `merged`: the outputs if nobody shares the pass, else a
// message.
template <typename T, int D, typename Params>
__device__ __forceinline__ void LeavePart(const Params& p, const DensePass<T>& pass, const DenseShare& share,
                                          int number, const float (*merged)[D + 2]) {
  const int columns = pass.heads * D / 4;
  const bool whole = share.HasWhole(p, number);
#pragma unroll 1
  for (int column = static_cast<int>(threadIdx.x); column < columns; column += static_cast<int>(blockDim.x)) {
    const PartialSum all = SumOfWarps<D>(merged, p.warps, pass.heads, column);
    if (whole) {
      StoreColumn<T, D>(p, pass, column, all);
    } else {
      DenseMessage(p, static_cast<int>(blockIdx.x), number != share.first_pass, columns, column).Send(all);
    }
  }
}

// Who merges what of a pass: a column's parts go to `width` neighbouring lanes.
struct MergeLanes {
  int width, part, group, groups;  // the lane's first part; the thread's column among those of the block's threads

  __device__ __forceinline__ explicit MergeLanes(int parts) {
    width = parts > 16 ? 32 : 1 << (32 - __clz(parts - 1));
    const int thread = static_cast<int>(threadIdx.x);
    part = thread & (width - 1);
    group = thread / width;
    groups = static_cast<int>(blockDim.x) / width;
  }
};

// Waits for all parts of a pass that the block shares with others, and merges the block's slice of the columns.
template <typename T, int D, typename Params>
__device__ __forceinline__ void MergeSlice(const Params& p, int number) {
  const DensePass<T> pass(p, number);
  const int columns = pass.heads * D / 4, begin = number * p.steps;
  const int first = DenseShare::BlockOf(p, begin), parts = DenseShare::BlockOf(p, begin + p.steps - 1) + 1 - first;
  const int turn = static_cast<int>(blockIdx.x) - first;
  const int slice = columns * turn / parts, slice_end = columns * (turn + 1) / parts;
  const MergeLanes lanes(parts);
#pragma unroll 1
  for (int base = slice; base < slice_end; base += lanes.groups) {
    const int column = base + lanes.group;
    const auto message = [&](int part) {
      // The pass is the first of all who share it, but of one whose share begins before it.
      const int block = first + part;
      return DenseMessage(p, block, DenseShare::BeginOf(p, block) < begin, columns, column);
    };
    PartialSum all;
#pragma unroll 1
    for (int next = lanes.part; column < slice_end && next < parts; next += kPartsAtOnce * lanes.width) {
      const auto is_there = [&](int i) { return next + i * lanes.width < parts; };
      DenseMessage::Words words[kPartsAtOnce];
      bool complete;
      do {
        complete = true;
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i) {
          if (is_there(i)) words[i] = message(next + i * lanes.width).Read();
        }
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i) complete = complete && (!is_there(i) || words[i].AreAllThere());
      } while (!complete);
      PartialSum of_parts[kPartsAtOnce];
#pragma unroll
      for (int i = 0; i < kPartsAtOnce; ++i) {
        if (!is_there(i)) continue;
        of_parts[i] = words[i].Part();
        message(next + i * lanes.width).Erase();  // this thread alone reads it
      }
      all.Add(of_parts);
    }
    __syncwarp();
    all.AddLanes(lanes.width);
    if (lanes.part == 0 && column < slice_end) StoreColumn<T, D>(p, pass, column, all);
  }
}

}  // namespace headscope::kernels::decode
