// SPDX-License-Identifier: Apache-2.0
// The stream of key rows for several query heads: every warp has a ring of its own in shared memory, filled by
// asynchronous copies past the end of an item into the next one. So memory has requests while a block selects and
// attends, and warps do not wait for each other. The tensor cores want a tile of tokens from several threads. A batch
// is 8 component rows of kTileTokens tokens; an item's tiles come one after the other, with all rows of one before the
// next. A row's 16-byte pieces change places by the row's number, so that ldmatrix, which takes one piece of 8 rows,
// meets no bank twice.
#pragma once

#include "async_copy.cuh"
#include "decode/sparq_shared.cuh"
#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// Waits until at most `pending` of the newest groups of asynchronous copies are under way.
__device__ __forceinline__ void WaitForGroups(int pending) {
  static_assert(kMaxBatches == 2);
  if (pending > 0) {  // the instruction wants a constant
    cuda::AwaitCopyGroups<1>();
  } else {
    cuda::AwaitCopyGroups<0>();
  }
}

// Waits for all of the thread's asynchronous copies, those in no group yet among them.
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

constexpr int kTilePieces = kTileTokens / 8;

// Where a warp's tiles of an item lie.
template <typename T>
struct TileSource {
  const T* from;  // this thread's piece of the first tile in component 0
  int first;      // its first token in the span
  int tokens;     // of the span; 0: nothing is to be requested
  const int* component;

  template <SparqPath kPath>
  __device__ __forceinline__ explicit TileSource(const SpanView<kPath>& view)
      : from(static_cast<const T*>(view.p.kt) + view.Sequence() * view.p.kt_batch + view.KvHead() * view.p.kt_head +
             view.first),
        first(static_cast<int>(threadIdx.x) / 32 * kTileTokens + static_cast<int>(threadIdx.x) % kTilePieces * 8),
        tokens(view.tokens),
        component(view.choice.component) {
    from += first;
  }
};

// plan.batches batches. A batch is used and then requested anew, in a circle.
template <typename T>
class TileRing {
 public:
  using Source = TileSource<T>;

  __device__ __forceinline__ TileRing(const SparqPlan& plan, char* shared)
      : mine_(shared + plan.ring + threadIdx.x / 32 * kBytes), batches_(plan.batches) {}

  // Requests the source's next batch into the present place of the ring and goes on to the next place, the oldest.
  // Pieces behind the span's end stay what they were.
  __device__ __forceinline__ void Request(const TileSource<T>& source, int64_t kt_component, int steps) {
    const int lane = threadIdx.x % 32, piece = lane % kTilePieces, skip = tile_ * kSparqWarps * kTileTokens;
    if (source.first + skip < source.tokens) {
#pragma unroll
      for (int first = 0; first < 8; first += 32 / kTilePieces) {
        const int row = first + lane / kTilePieces;
        CopyAsync(Piece(row, piece), source.from + skip + source.component[step_ * 8 + row] * kt_component);
      }
    }
    cuda::EndCopyGroup();
    if (++batch_ == batches_) batch_ = 0;
    if (++step_ == steps) {
      step_ = 0;
      ++tile_;
    }
  }
  // Requests the first item's first batches.
  __device__ __forceinline__ void Begin(const SparqPlan& plan, const TileSource<T>& source, int64_t kt_component) {
    for (int batch = 0; batch < batches_; ++batch) Request(source, kt_component, plan.rows / 8);
  }
  // The tile that is requested next, of the source that it is requested from; and the first of another one.
  __device__ __forceinline__ int RequestedTile() const {
    return tile_;
  }
  __device__ __forceinline__ void BeginSource() {
    tile_ = 0;
  }

  // Waits for the present batch: the whole warp's.
  __device__ __forceinline__ void Wait() const {
    WaitForGroups(batches_ - 1);
    __syncwarp();
  }
  // A operands of m16n8k8 for tokens 16 m .. 16 m + 31 of the present batch: a[0] and a[1], then a[2] and a[3].
  __device__ __forceinline__ void Load(uint32_t (&a)[4], int m) const {
    const int lane = threadIdx.x % 32;
    LoadMatricesTransposed(a, SharedAddress(Piece(lane % 8, 2 * m + lane / 8)));
  }

 private:
  static constexpr int kBytes = 8 * kTileTokens * 2;  // of a warp's batch

  __device__ __forceinline__ char* Piece(int row, int piece) const {
    return mine_ + batch_ * kSparqWarps * kBytes + row * kTileTokens * 2 + (piece ^ row) * 16;
  }

  char* mine_;
  int batches_, batch_ = 0, tile_ = 0, step_ = 0;
};

}  // namespace headscope::kernels::decode
