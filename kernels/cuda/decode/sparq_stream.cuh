// SPDX-License-Identifier: Apache-2.0
// The stream of key rows of one query head: one warp of a block, the feeder, chooses components and has their rows
// copied into a ring of stages in shared memory (sparq_feed.cuh); crews take items from it, whoever is free the next,
// so that one scores while the others select and attend, and the stream never stops.
//
// A stage has two barriers: `full` says that its rows have arrived, `empty` that a crew's threads have read them. An
// item has two as well: `ready` says that its choice is there to read and its stages follow, `scored` that nobody reads
// its choice or its stages any more. A crew touches stages only when the item before is scored, so nobody ever waits
// for a phase while the one before is still to come, which a barrier's parity could not tell apart. Every thread that
// reads or writes waits and arrives itself: this is what compute-sanitizer's racecheck follows.
#pragma once

#include "decode/sparq_shared.cuh"
#include "shared_memory.cuh"

namespace headscope::kernels::decode {

using Barrier = uint64_t;  // an mbarrier of shared memory

// A place in the ring, and the parity of the barriers' phase there.
struct StreamPlace {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void Advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// What the crew that takes an item has to know.
struct StreamItem {
  int item;  // plan.items or more: there is none
  float factor;
  StreamPlace first;
  alignas(16) char query[kMaxStreamDim * 2];
  alignas(16) float weight[kMaxRank];  // of the rows, 0 for those that pad a stage
  int component[kMaxRank];             // the rows, in ascending order
};

struct StreamShared {
  StreamItem items[kItemsAhead];
  Barrier ready[kItemsAhead], scored[kItemsAhead];
  Barrier full[kMaxStages], empty[kMaxStages];
  int taken;  // items, by crews
};
static_assert(sizeof(StreamShared) <= kStreamSharedBytes);

// The parity of the number-th item's phase.
__device__ __forceinline__ uint32_t ItemParity(int number) {
  return static_cast<uint32_t>(number / kItemsAhead) & 1u;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

using cuda::SharedAddress;

__device__ __forceinline__ void InitBarrier(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals) : "memory");
}
// To bulk copies as well.
__device__ __forceinline__ void ShowBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void Arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
// The phase ends when so many bytes have arrived as well.
__device__ __forceinline__ void ArriveExpecting(Barrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(bytes)
               : "memory");
}
// Waits for the end of the phase of this parity.
__device__ __forceinline__ void Wait(Barrier* barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}"
        : "=r"(done)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  } while (done == 0);
}
// Contiguous bytes into shared memory, where they count on a barrier's phase; a multiple of 16, as are the addresses.
__device__ __forceinline__ void CopyBulk(void* to, const void* from, int bytes, Barrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   SharedAddress(to)),
               "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
               : "memory");
}

// By one thread; a barrier of the block follows.
template <SparqPath kPath>
__device__ __forceinline__ void BeginStream(StreamShared& stream) {
  for (int i = 0; i < kItemsAhead; ++i) {
    InitBarrier(&stream.ready[i], 32);
    InitBarrier(&stream.scored[i], CrewOf<kPath>::kThreads);
  }
  for (int i = 0; i < kMaxStages; ++i) {
    InitBarrier(&stream.full[i], 1);
    InitBarrier(&stream.empty[i], CrewOf<kPath>::kThreads);
  }
  stream.taken = 0;
  ShowBarriers();
}

// Takes the block's next item for the crew and waits until it is its turn to score. What the crew needs of it until the
// end is then in `fixed` (the first choice's factor) and `query`, from the crew's next barrier on. Begins with a
// barrier of the crew, which lies between what was read there of the item before and this.
template <typename T, int D, SparqPath kPath>
__device__ __forceinline__ const StreamItem& TakeItem(const SparqPlan& plan, StreamShared& stream,
                                                      SparqShared<kPath>& fixed, T* query) {
  const int thread = CrewOf<kPath>::Thread();
  if (thread == 0) fixed.number = atomicAdd(&stream.taken, 1);
  CrewOf<kPath>::Barrier();
  const int number = fixed.number;
  const StreamItem& taken = stream.items[number % kItemsAhead];
  Wait(&stream.ready[number % kItemsAhead], ItemParity(number));
  if (taken.item >= plan.items) return taken;
  if (thread < D * 2 / 16)
    reinterpret_cast<uint4*>(query)[thread] = reinterpret_cast<const uint4*>(taken.query)[thread];
  if (thread == 0) fixed.choice[0].factor[0] = taken.factor;
  if (number > 0) Wait(&stream.scored[(number - 1) % kItemsAhead], ItemParity(number - 1));
  return taken;
}

// The scores of a thread's tokens of the one query head; -inf from the span's end on.
template <typename T, SparqPath kPath>
__device__ __forceinline__ void ScoreStream(const SpanView<kPath>& view, StreamShared& stream, const StreamItem& of,
                                            const char* ring, OfTokens<float, CrewOf<kPath>>& score) {
  using StreamCrew = CrewOf<kPath>;
#pragma unroll
  for (int piece = 0; piece < StreamCrew::kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) score[piece][i] = 0;
  }
  const SparqPlan& plan = view.p.plan;
  StreamPlace at = of.first;
#pragma unroll 1
  for (int row = 0; row < plan.rows; row += kStageRows) {
    Wait(&stream.full[at.stage], at.parity);
    // Behind the span's end is whatever shared memory held.
    const auto* stage = reinterpret_cast<const uint4*>(ring + at.stage * kStageBytes) + StreamCrew::Thread();
    constexpr int kRowsAtOnce = 2;
#pragma unroll
    for (int first = 0; first < kStageRows; first += kRowsAtOnce) {
      uint4 raw[kRowsAtOnce][StreamCrew::kPieces];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
#pragma unroll
        for (int piece = 0; piece < StreamCrew::kPieces; ++piece)
          raw[r][piece] = stage[((first + r) * StreamCrew::kPieces + piece) * StreamCrew::kThreads];
      }
      if (first + kRowsAtOnce == kStageRows) Arrive(&stream.empty[at.stage]);
      static_assert(kRowsAtOnce == 2);
      const float2 weights = *reinterpret_cast<const float2*>(of.weight + row + first);
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        const float weight = r == 0 ? weights.x : weights.y;
#pragma unroll
        for (int piece = 0; piece < StreamCrew::kPieces; ++piece) {
          float key[kKeysOfPiece];
          Unpack(raw[r][piece], key, T());
#pragma unroll
          for (int i = 0; i < kKeysOfPiece; ++i) score[piece][i] += weight * key[i];
        }
      }
    }
    at.Advance(plan.stages);
  }
  Arrive(&stream.scored[view.fixed.number % kItemsAhead]);
  if (view.tokens == kSpanTokens) return;
#pragma unroll
  for (int piece = 0; piece < StreamCrew::kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) {
      if (i >= view.tokens - StreamCrew::PlaceInSpan(piece, 0)) score[piece][i] = kNegativeInfinity;
    }
  }
}

#endif

}  // namespace headscope::kernels::decode
