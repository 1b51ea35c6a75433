// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup (token_traits.cuh says how two of them share an item).
//
// Weights are counted from a row's largest score in the item's first two tiles, the *reference*, and its O is never
// rescaled. bf16 has the exponents of fp32, so a row may climb by 100 powers of two, 69 nats, above its reference and
// loses nothing. An item that has a row which climbs further, or whose first tiles had no token, is done once more by
// the launch behind this one, which knows the row's largest score. So the groups need not agree on a maximum in every
// tile, which would tie one's softmax to the other's.
#pragma once

#include "fast_math.cuh"
#include "hopper/softmax.cuh"
#include "shared_memory.cuh"
#include "tokens/token_traits.cuh"

namespace headscope::kernels::tokens {

template <int kGroup, bool kAgain>
class TokenConsumer {
 public:
  __device__ TokenConsumer(const TokenParams& params, SharedStorage& shared)
      : p_(params),
        s_(shared),
        thread_(static_cast<int>(threadIdx.x) % 128),
        lane_(thread_ % 32),
        row_(thread_ / 32 * 16 + lane_ / 4),
        // Of the warp's 16 rows of a slab, as the accesses of four 8 x 8 matrices take it; the piece is to be added.
        matrix_row_(thread_ / 32 * 16 + lane_ % 16) {}

  __device__ void Run() {
    using namespace cute;
    MmaScores mma_scores;
    MmaLastScores mma_last_scores;
    MmaOwn mma_own;
    MmaOther mma_other;
    const auto shared_tensor = [](char* place, auto layout) {
      return make_tensor(make_smem_ptr(reinterpret_cast<Element*>(place)), layout);
    };
    const auto scores_slice = mma_scores.get_slice(thread_);
    const auto own_slice = mma_own.get_slice(thread_);
    const auto other_slice = mma_other.get_slice(thread_);
    // (mma, rows, k)
    Tensor q = scores_slice.partition_fragment_A(shared_tensor(s_.q, LayoutQ{}));
    Tensor k = scores_slice.partition_fragment_B(shared_tensor(s_.tile[kGroup], LayoutK{}));
    const auto values = [&](int tile) {
      return shared_tensor(s_.tile[tile] + kGroup * kHalfSlabs * kSlabBytes, LayoutVt{});
    };
    Tensor own_values = own_slice.partition_fragment_B(values(kGroup));
    Tensor other_values = other_slice.partition_fragment_B(values(1 - kGroup));
    Tensor other_weights = other_slice.partition_fragment_A(shared_tensor(s_.Weights(1 - kGroup), LayoutWeights{}));
    Tensor scores = partition_fragment_C(mma_scores, Shape<Rows, Tokens>{});
    Tensor output = partition_fragment_C(mma_own, Shape<Rows, Int<kHalfDim>>{});
    using OperandLayout = Layout<Shape<Shape<_2, _2, _2>, _1, _4>>;  // of 64 columns
    Tensor last_q = make_tensor<Element>(OperandLayout{});
    Tensor weights = make_tensor<Element>(OperandLayout{});
    constexpr int kScores = decltype(size(scores))::value;
    constexpr int kStepsOfSlab = 4;

    const auto multiply_slabs = [&](int begin, int end) {
      CUTE_UNROLL
      for (int i = begin * kStepsOfSlab; i < end * kStepsOfSlab; ++i) {
        cute::gemm(mma_scores, q(_, _, i), k(_, _, i), scores);
        mma_scores.accumulate_ = GMMA::ScaleOut::One;
      }
    };
    const auto multiply_last_slab = [&] {
      mma_last_scores.accumulate_ = GMMA::ScaleOut::One;
      CUTE_UNROLL
      for (int i = 0; i < kStepsOfSlab; ++i) {
        cute::gemm(mma_last_scores, last_q(_, _, i), k(_, _, (kSlabs - 1) * kStepsOfSlab + i), scores);
      }
    };

    Items<kAgain> items(p_);
    uint32_t number = 0;  // of a pair of tiles, over all items
    uint32_t round = 0;   // of an item
    int item;
    int before = -1;  // the item before
    while (items.Take(&item)) {
      const ItemList list = ListOf(p_, item);
      WaitFor(&s_.q_full, round);
      ++round;
      ReadLastQueries(last_q);
      float reference[2];
      float row_max[2] = {-INFINITY, -INFINITY};
      float row_sum[2] = {0.0f, 0.0f};
      mma_own.accumulate_ = GMMA::ScaleOut::Zero;
      mma_other.accumulate_ = GMMA::ScaleOut::Zero;
      for (int pair = 0; pair < list.pairs; ++pair, ++number) {
        // Scores, from each half of the tile as it comes.
        WaitFor(&s_.full[kGroup][kGroup], number);
        cutlass::arch::fence_view_async_shared();
        warpgroup_fence_operand(scores);
        warpgroup_fence_operand(last_q);
        warpgroup_arrive();
        mma_scores.accumulate_ = GMMA::ScaleOut::Zero;
        if constexpr (kGroup == 0) {
          multiply_slabs(0, kHalfSlabs);
        } else {
          multiply_slabs(kHalfSlabs, 2 * kHalfSlabs);
          multiply_last_slab();
        }
        WaitFor(&s_.full[kGroup][1 - kGroup], number);
        cutlass::arch::fence_view_async_shared();
        if constexpr (kGroup == 0) {
          multiply_slabs(kHalfSlabs, 2 * kHalfSlabs);
          multiply_last_slab();
        } else {
          multiply_slabs(0, kHalfSlabs);
        }
        warpgroup_commit_batch();

        const auto multiply_other = [&] {
          WaitFor(&s_.weights_full[1 - kGroup], number);
          warpgroup_fence_operand(output);
          warpgroup_arrive();
          CUTE_UNROLL
          for (int i = 0; i < decltype(size<2>(other_values))::value; ++i) {
            cute::gemm(mma_other, other_weights(_, _, i), other_values(_, _, i), output);
            mma_other.accumulate_ = GMMA::ScaleOut::One;
          }
          mma_own.accumulate_ = GMMA::ScaleOut::One;
          warpgroup_commit_batch();
        };
        // Group 0's weights are there first: group 1 multiplies with them while it takes its own exponentials.
        if constexpr (kGroup == 1) {
          if (pair > 0) {
            multiply_other();
            warpgroup_wait<1>();
          } else {
            warpgroup_wait<0>();
          }
        } else {
          warpgroup_wait<0>();
        }
        warpgroup_fence_operand(scores);
        DropOthers(scores);
        float tile_max[2];
        MaxOf(scores, tile_max);
        if (pair == 0) {
          for (int r = 0; r < 2; ++r) tile_max[r] = hopper::QuadMax(tile_max[r]);
          FindReference(list, tile_max, before, reference);
          before = -1;
        }
        for (int r = 0; r < 2; ++r) row_max[r] = fmaxf(row_max[r], tile_max[r]);
        float sums[4];
        CUTE_UNROLL
        for (int i = 0; i < kScores; i += 2) {
          const float base = reference[i / 2 % 2];
          const float low = cuda::Exp2(fmaf(scores(i) - base, p_.scale_log2, -kHeadroom));
          const float high = cuda::Exp2(fmaf(scores(i + 1) - base, p_.scale_log2, -kHeadroom));
          sums[i % 4] = i < 4 ? low : sums[i % 4] + low;
          sums[i % 4 + 1] = i < 4 ? high : sums[i % 4 + 1] + high;
          reinterpret_cast<uint32_t&>(weights(i)) = hopper::RoundedPair<Element>(low, high);
        }
        for (int r = 0; r < 2; ++r) row_sum[r] += sums[2 * r] + sums[2 * r + 1];
        // To the other group, once that has used the ones before.
        Mbarrier::wait(&s_.weights_empty[kGroup], (number & 1u) ^ 1u);
        WriteWeights(weights);
        cutlass::arch::fence_view_async_shared();
        Mbarrier::arrive(&s_.weights_full[kGroup]);

        if constexpr (kGroup == 1) {
          if (pair == 0) {
            multiply_other();
          }
          warpgroup_wait<0>();
          warpgroup_fence_operand(output);
          Release(&s_.empty[0][1]);
          Release(&s_.weights_empty[0]);
        }
        warpgroup_fence_operand(output);
        warpgroup_fence_operand(weights);
        warpgroup_arrive();
        CUTE_UNROLL
        for (int i = 0; i < decltype(size<2>(own_values))::value; ++i) {
          cute::gemm(mma_own, weights(_, _, i), own_values(_, _, i), output);
          mma_own.accumulate_ = GMMA::ScaleOut::One;
        }
        mma_other.accumulate_ = GMMA::ScaleOut::One;
        warpgroup_commit_batch();
        if constexpr (kGroup == 0) {
          multiply_other();
          warpgroup_wait<1>();
          Mbarrier::arrive(&s_.empty[0][0]);
          warpgroup_wait<0>();
          warpgroup_fence_operand(output);
          Release(&s_.empty[1][0]);
          Release(&s_.weights_empty[1]);
        } else {
          warpgroup_wait<0>();
          warpgroup_fence_operand(output);
          Mbarrier::arrive(&s_.empty[1][1]);
        }
      }
      Finish(list, reference, row_max, row_sum, output);
      before = item;
    }
    // Who waits for the last item's outcome.
    Meet();
    if (before >= 0) PushAgain(before);
  }

 private:
  // How far below 1 a weight lies whose score is the reference, in powers of two; as far above it may one climb.
  static constexpr float kHeadroom = 50.0f;

  __device__ static void WaitFor(uint64_t* barrier, uint32_t use) { Mbarrier::wait(barrier, use & 1u); }
  // By every warp, whose lanes are all done.
  __device__ void Release(uint64_t* barrier) const {
    __syncwarp();
    if (lane_ == 0) Mbarrier::arrive(barrier);
  }
  // Both groups. A barrier of the hardware would do as well, but synccheck wants all to come to one and the same
  // instruction, and these are two pieces of code.
  __device__ void Meet() {
    Mbarrier::arrive(&s_.met);
    Mbarrier::wait(&s_.met, meetings_ & 1u);
    ++meetings_;
    __syncwarp();
  }

  // Where the lane's row of matrix lane / 8 of step i begins in a slab of weights or queries: matrices are rows 0 to 7
  // and 8 to 15 of the warp, of 8 columns and then of the next 8.
  __device__ uint32_t MatrixPlace(const char* slab, int i) const {
    return cuda::SharedAddress(slab) +
           static_cast<uint32_t>(matrix_row_ * 128 + (((2 * i + lane_ / 16) ^ (matrix_row_ % 8)) << 4));
  }
  template <class Operand>
  __device__ void ReadLastQueries(Operand& operand) const {
    CUTE_UNROLL
    for (int i = 0; i < 4; ++i) {
      uint32_t words[4];
      cuda::LoadMatrices(words, MatrixPlace(s_.q + (kSlabs - 1) * kSlabBytes, i));
      for (int w = 0; w < 4; ++w) reinterpret_cast<uint32_t&>(operand(i * 8 + w * 2)) = words[w];
    }
  }
  template <class Operand>
  __device__ void WriteWeights(const Operand& weights) const {
    CUTE_UNROLL
    for (int i = 0; i < 4; ++i) {
      uint32_t words[4];
      for (int w = 0; w < 4; ++w) words[w] = reinterpret_cast<const uint32_t&>(weights(i * 8 + w * 2));
      cuda::StoreMatrices(MatrixPlace(s_.Weights(kGroup), i), words);
    }
  }

  // What is no token, or behind the list's end, is not kept.
  template <class Scores>
  __device__ void DropOthers(Scores& scores) const {
    const uint4 counts = *reinterpret_cast<const uint4*>(s_.counts[kGroup][lane_ % 4]);
    const uint32_t words[4] = {counts.x, counts.y, counts.z, counts.w};
    constexpr uint32_t kAll = 0x01010101u;
    if ((words[0] & words[1] & words[2] & words[3]) == kAll) return;
    CUTE_UNROLL
    for (int i = 0; i < decltype(cute::size(scores))::value; ++i) {
      // Element 4 j + 2 r + c is column 8 j + 2 (lane % 4) + c.
      const int byte = i / 4 * 2 + i % 2;
      if ((words[byte / 4] >> byte % 4 * 8 & 1u) == 0) scores(i) = -INFINITY;
    }
  }

  template <class Scores>
  __device__ static void MaxOf(const Scores& scores, float (&largest)[2]) {
    float by_column[4] = {scores(0), scores(1), scores(2), scores(3)};
    CUTE_UNROLL
    for (int i = 4; i < decltype(cute::size(scores))::value; ++i) by_column[i % 4] = fmaxf(by_column[i % 4], scores(i));
    for (int r = 0; r < 2; ++r) largest[r] = fmaxf(by_column[2 * r], by_column[2 * r + 1]);
  }

  // From the rows' largest scores in the group's first tile, and the other's.
  __device__ void FindReference(const ItemList& list, const float (&tile_max)[2], int before, float (&reference)[2]) {
    if (lane_ % 4 == 0) {
      for (int r = 0; r < 2; ++r) s_.first_max[kGroup][row_ + 8 * r] = tile_max[r];
    }
    Meet();
    // Before: all of the item before is written that says whether it is done again.
    if (before >= 0) PushAgain(before);
    for (int r = 0; r < 2; ++r) {
      const int row = row_ + 8 * r;
      float largest = fmaxf(tile_max[r], s_.first_max[1 - kGroup][row]);
      if constexpr (kAgain) {
        const int head = list.first_head + row;
        if (head < p_.num_qo_heads) largest = p_.row_max[LseOf(list, head)] / p_.scale;
      }
      // A row without a token so far: any weight is infinite under this, and that of -inf is 0.
      reference[r] = largest == -INFINITY ? -3e38f : largest;
    }
  }

  // One thread of group 0, once per item, puts it on the list where a row asked for it.
  __device__ void PushAgain(int item) {
    if constexpr (kGroup == 0 && !kAgain) {
      if (thread_ == 0 && s_.again != 0) {
        p_.again[1 + atomicAdd(p_.again, 1)] = item;
        s_.again = 0;
      }
    }
  }

  __device__ int64_t LseOf(const ItemList& list, int head) const {
    return static_cast<int64_t>(list.query) * p_.num_qo_heads + head;
  }

  template <class Output>
  __device__ void Finish(const ItemList& list, const float (&reference)[2], const float (&row_max)[2],
                         const float (&row_sum)[2], const Output& output) {
    float largest[2], sum[2];
    for (int r = 0; r < 2; ++r) {
      largest[r] = hopper::QuadMax(row_max[r]);
      sum[r] = hopper::QuadSum(row_sum[r]);
      if (lane_ % 4 == 0) {
        s_.row_max[kGroup][row_ + 8 * r] = largest[r];
        s_.row_sum[kGroup][row_ + 8 * r] = sum[r];
      }
    }
    Meet();
    Element* const o = static_cast<Element*>(p_.o) + list.query * p_.o_query_stride + kGroup * kHalfDim;
    for (int r = 0; r < 2; ++r) {
      const int row = row_ + 8 * r, head = list.first_head + row;
      largest[r] = fmaxf(largest[r], s_.row_max[1 - kGroup][row]);
      // Group 0's share first, so that both groups get one sum.
      const float other = s_.row_sum[1 - kGroup][row];
      float total = kGroup == 0 ? sum[r] + other : other + sum[r];
      if (head >= p_.num_qo_heads) continue;
      if constexpr (kGroup == 0 && !kAgain) {
        if ((largest[r] - reference[r]) * p_.scale_log2 > 2 * kHeadroom) atomicOr(&s_.again, 1);
      }
      float shift = fmaf(reference[r], p_.scale_log2, kHeadroom), factor = 1.0f;
      if (total == 0.0f) shift = -3e38f;
      if (p_.sinks != nullptr) hopper::AddSink(p_.sinks[head], &total, &shift, &factor);
      const float inverse = total == 0.0f ? 0.0f : factor / total;
      CUTE_UNROLL
      for (int i = 2 * r; i < decltype(cute::size(output))::value; i += 4) {
        *reinterpret_cast<uint32_t*>(o + head * p_.o_head_stride + i / 4 * 8 + lane_ % 4 * 2) =
            hopper::RoundedPair<Element>(output(i) * inverse, output(i + 1) * inverse);
      }
      if (kGroup == 0 && lane_ % 4 == 0) {
        p_.row_max[LseOf(list, head)] = largest[r] * p_.scale;
        if (p_.lse != nullptr) {
          p_.lse[LseOf(list, head)] = total == 0.0f ? -INFINITY : (shift + log2f(total)) * 0.693147180559945309f;
        }
      }
    }
  }

  const TokenParams& p_;
  SharedStorage& s_;
  const int thread_;  // of the group
  const int lane_;
  const int row_;  // the first of the thread's two rows of the item; the other is 8 below
  const int matrix_row_;
  uint32_t meetings_ = 0;
};

}  // namespace headscope::kernels::tokens
