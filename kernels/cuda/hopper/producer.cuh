// The producer warpgroup. Warp 0 takes work items, walks their runs and brings Q, K and V by TMA. Single columns are
// gathered by all four warps with 16-byte cp.async, into the same stages and under the same barriers, so the consumers
// cannot tell the difference.
#pragma once

#include <cute/arch/copy_sm90_tma.hpp>

#include "hopper/item_queue.cuh"
#include "hopper/run_walker.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// Gathers an item's single columns of one list.
struct ColumnJob {
  int32_t sequence;
  int32_t kv_head;
  int32_t count;      // -1: no more jobs
  uint32_t quarters;  // row quarters that keep them
  int32_t step;       // number of the first step
  int32_t last;       // whether the item ends with it
  int64_t begin;      // into index.columns
};

template <class T>
class Producer {
 public:
  using Element = typename T::Element;

  __device__ Producer(const KernelParams& params, SharedStorage<T>& shared)
      : p_(params), s_(shared), warp_(static_cast<int>(threadIdx.x) / 32), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    if (warp_ == 0) {
      Feed();
    } else {
      while (TakeJob()) Gather();
    }
  }

 private:
  __device__ void Feed() {
    ItemQueue queue(p_, lane_);
    RunWalker<T> walker(p_, lane_);
    for (int work = 0;; ++work) {
      const int item = queue.Take(&s_.lists);
      const int slot = work % T::kQuerySlots;
      Mbarrier::wait(&s_.q_empty[slot], (work / T::kQuerySlots & 1) ^ 1);
      if (item < 0) {
        if (lane_ == 0) {
          s_.work[slot] = -1;
          Mbarrier::arrive(&s_.q_full[slot]);
        }
        HandOut({.count = -1});
        TakeJob();
        return;
      }
      const ItemPlace place = PlaceOf(p_, item);
      LoadQuery(slot, item, place);
      kv_head_ = place.head / p_.group_size;
      sequence_ = place.sequence;
      walker.Start(s_.lists, place.tile);
      queue.Advance();
      FeedRuns(walker, queue, s_.lists.column_count[0] + s_.lists.column_count[1] != 0);
      FeedColumns(s_.lists);
    }
  }

  __device__ void FeedRuns(RunWalker<T>& walker, ItemQueue& queue, bool columns_follow) {
    StepHead step;
    if (!walker.Next(&s_.steps[step_ % kStepRing], &step)) {
      if (columns_follow) return;
      // An item that keeps nothing is one tile of nothing: rows of zeros behind the last key, all masked.
      if (lane_ < T::kSegments) s_.steps[step_ % kStepRing].segments[lane_] = {p_.index.seq_k, 0};
      step = {kStepMasked, false, p_.index.seq_k};
    }
    // Whether a step is the last is known when the one behind it has been looked up, and the consumers need to know it
    // with the step's keys. Keys go one step ahead of values: their stage is free half a step earlier, and they are
    // needed first.
    auto load_keys = [&](int number, StepHead& head, bool has_following) {
      if (!has_following && !columns_follow) head.flags |= kStepLast;
      if (lane_ == 0) s_.steps[number % kStepRing].flags = head.flags;
      LoadTile(number, head, s_.k_empty, s_.k_full, s_.k[number % kStages], p_.k_tile, p_.k_segment);
    };
    StepHead following;
    bool has_following = walker.Next(&s_.steps[(step_ + 1) % kStepRing], &following);
    load_keys(step_, step, has_following);
    while (true) {
      StepHead after;
      bool has_after = false;
      if (has_following) {
        has_after = walker.Next(&s_.steps[(step_ + 2) % kStepRing], &after);
        load_keys(step_ + 1, following, has_after);
      }
      LoadTile(step_, step, s_.v_empty, s_.v_full, s_.v[step_ % kStages], p_.v_tile, p_.v_segment);
      queue.Advance();
      ++step_;
      if (!has_following) return;
      step = following;
      following = after;
      has_following = has_after;
    }
  }

  __device__ void FeedColumns(const ItemLists& lists) {
    for (int l = 0; l < 2; ++l) {
      const int count = static_cast<int>(lists.column_count[l]);
      if (count == 0) continue;
      const bool last = l == 1 || lists.column_count[1] == 0;
      HandOut({sequence_, kv_head_, count, lists.Quarters(l), step_, last, lists.column_begin[l]});
      TakeJob();
      Gather();
      step_ += (count + T::kTileColumns - 1) / T::kTileColumns;
    }
  }

  __device__ void LoadQuery(int slot, int item, const ItemPlace& place) {
    if (lane_ == 0) {
      s_.work[slot] = item;
      Mbarrier::arrive_and_expect_tx(&s_.q_full[slot], T::kQueryBytes);
    }
    __syncwarp();
    constexpr int kBoxes = T::kSlabs * kConsumerGroups;
    if (lane_ < kBoxes) {
      const int slab = lane_ / kConsumerGroups;
      const int group = lane_ % kConsumerGroups;
      char* const target = s_.q[slot] + slab * kItemRows * kSlabBytes + group * 64 * kSlabBytes;
      cute::SM90_TMA_LOAD_4D::copy(&p_.q, &s_.q_full[slot],
                                   static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST), target, slab * 64,
                                   place.tile * kItemRows + group * 64, place.head, place.sequence);
    }
  }

  // One tile of K or V by TMA, a box per lane. The description of the step is complete before the full barrier is
  // arrived at.
  __device__ void LoadTile(int number, const StepHead& step, uint64_t* empty, uint64_t* full, char* stage,
                           const CUtensorMap& whole, const CUtensorMap& segment) {
    const int slot = number % kStages;
    Mbarrier::wait(&empty[slot], (number / kStages & 1) ^ 1);
    __syncwarp();
    if (lane_ == 0) {
      Mbarrier::arrive_and_expect_tx(&full[slot], T::kStageBytes);
      ArriveMany(&full[slot], kFullArrivals - 1);
    }
    __syncwarp();
    const auto hint = static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_LAST);
    if (step.whole) {
      const int start = __shfl_sync(~0u, step.start, 0);
      if (lane_ < T::kSlabs) {
        cute::SM90_TMA_LOAD_4D::copy(&whole, &full[slot], hint, stage + lane_ * T::kTileColumns * kSlabBytes,
                                     lane_ * 64, start, kv_head_, sequence_);
      }
    } else {
      // Lane l brings segment l % kSegments of slab l / kSegments.
      const int start = __shfl_sync(~0u, step.start, lane_ % T::kSegments);
      if (lane_ < T::kSlabs * T::kSegments) {
        cute::SM90_TMA_LOAD_4D::copy(&segment, &full[slot], hint,
                                     stage + lane_ / T::kSegments * T::kTileColumns * kSlabBytes +
                                         lane_ % T::kSegments * kSegmentRows * kSlabBytes,
                                     lane_ / T::kSegments * 64, start, kv_head_, sequence_);
      }
    }
  }

  // Warp 0 passes a job to the warpgroup through shared memory. The barrier inside TakeJob() is met twice: the first
  // time the job is there, the second time everybody has read it.
  __device__ void HandOut(const ColumnJob& job) {
    if (lane_ == 0) *reinterpret_cast<ColumnJob*>(s_.job) = job;
  }

  __device__ bool TakeJob() {
    static_assert(sizeof(ColumnJob) == sizeof(s_.job));
    BarrierSync(kProducerBarrier, 128);
    job_ = *reinterpret_cast<const ColumnJob*>(s_.job);
    BarrierSync(kProducerBarrier, 128);
    return job_.count >= 0;
  }

  __device__ void Gather() {
    constexpr int kRowsPerWarp = T::kTileColumns / 4;
    const Element* const k = HeadOf(p_.k_gather);
    const Element* const v = HeadOf(p_.v_gather);
    const int32_t* const columns = p_.index.columns + job_.begin;
    // Lane i of a warp knows the column of the warp's row i; -1 reads as zeros.
    auto column_at = [&](int first) {
      const int i = first + warp_ * kRowsPerWarp + lane_;
      return lane_ < kRowsPerWarp && i < job_.count ? columns[i] : -1;
    };
    auto load_keys = [&](int step, int first, int column) {
      const int slot = step % kStages;
      Mbarrier::wait(&s_.k_empty[slot], (step / kStages & 1) ^ 1);
      GatherRows(k, p_.k_gather.row_stride, s_.k[slot], column);
      cutlass::arch::cpasync_barrier_arrive_noinc(&s_.k_full[slot]);
      if (threadIdx.x == 0) {
        Describe(step, first);
        Mbarrier::arrive(&s_.k_full[slot]);
      }
    };
    // Keys one step ahead of values, as in FeedRuns().
    int column = column_at(0);
    int next_column = column_at(T::kTileColumns);
    load_keys(job_.step, 0, column);
    for (int first = 0, step = job_.step; first < job_.count; first += T::kTileColumns, ++step) {
      if (first + T::kTileColumns < job_.count) load_keys(step + 1, first + T::kTileColumns, next_column);
      const int slot = step % kStages;
      Mbarrier::wait(&s_.v_empty[slot], (step / kStages & 1) ^ 1);
      GatherRows(v, p_.v_gather.row_stride, s_.v[slot], column);
      cutlass::arch::cpasync_barrier_arrive_noinc(&s_.v_full[slot]);
      if (threadIdx.x == 0) Mbarrier::arrive(&s_.v_full[slot]);
      column = next_column;
      next_column = column_at(first + 2 * T::kTileColumns);
    }
  }

  __device__ const Element* HeadOf(const GatherSource& source) const {
    return static_cast<const Element*>(source.data) + job_.sequence * source.batch_stride +
           job_.kv_head * source.head_stride;
  }

  __device__ void Describe(int number, int first) {
    Step& step = s_.steps[number % kStepRing];
    const int present = min(T::kTileColumns, job_.count - first);
    for (int part = 0; part < T::kSegments; ++part) {
      const int length = min(kSegmentRows, max(0, present - part * kSegmentRows));
      step.segments[part] = {0, Segment::Pack(length, false, job_.quarters)};
    }
    step.flags = kStepGathered;
    if (present < T::kTileColumns || job_.quarters != Segment::kAllQuarters) step.flags |= kStepMasked;
    if (job_.last != 0 && first + T::kTileColumns >= job_.count) step.flags |= kStepLast;
  }

  // Each 16-byte piece of a row goes to its place under the 128-byte swizzle.
  __device__ void GatherRows(const Element* tensor, int64_t row_stride, char* stage, int column) const {
    constexpr int kRowsPerWarp = T::kTileColumns / 4;
    constexpr int kPieces = T::kHeadDim / 8;  // 16-byte pieces of a row
    constexpr int kRowsAtOnce = 32 / kPieces;
    const int piece = lane_ % kPieces;
    const uint32_t slab =
        cute::cast_smem_ptr_to_uint(stage) + static_cast<uint32_t>(piece / 8 * T::kTileColumns * kSlabBytes);
    const bool in_head = piece * 8 < p_.head_dim;
#pragma unroll 4
    for (int i = 0; i < kRowsPerWarp; i += kRowsAtOnce) {
      const int row_of_warp = i + lane_ / kPieces;
      const int source_row = __shfl_sync(~0u, column, row_of_warp);
      const int row = warp_ * kRowsPerWarp + row_of_warp;
      const bool present = in_head && static_cast<uint32_t>(source_row) < static_cast<uint32_t>(p_.index.seq_k);
      const Element* const source = present ? tensor + source_row * row_stride + piece * 8 : tensor;
      const uint32_t target = slab + static_cast<uint32_t>(row * kSlabBytes + ((piece % 8 ^ row % 8) << 4));
      asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
                   "r"(present ? 16 : 0)
                   : "memory");
    }
  }

  const KernelParams& p_;
  SharedStorage<T>& s_;
  const int warp_;
  const int lane_;
  ColumnJob job_;
  int step_ = 0;  // steps brought so far, over all items
  int kv_head_ = 0;
  int sequence_ = 0;
};

}  // namespace headscope::kernels::hopper
