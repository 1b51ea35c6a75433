// The producer warpgroup. Warp 0 takes work items, walks their runs and brings Q, K and V by TMA. Single columns are
// gathered by all four warps with 16-byte cp.async, into the same stages and under the same barriers, so the consumers
// cannot tell the difference.
#pragma once

#include <cute/arch/copy_sm90_tma.hpp>

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
    int next = FetchItem();
    for (int work = 0;; ++work) {
      const int item = next;
      const int slot = work % T::kQuerySlots;
      Mbarrier::wait(&s_.q_empty[slot], (work / T::kQuerySlots & 1) ^ 1);
      if (item < 0) {
        if (lane_ == 0) {
          s_.work[slot] = {-1, true};
          Mbarrier::arrive(&s_.q_full[slot]);
        }
        HandOut({.count = -1});
        return;
      }
      next = FetchItem();
      const ItemPlace place = PlaceOf(p_, item);
      kv_head_ = place.head / p_.group_size;
      sequence_ = place.sequence;
      walker_.Start(p_, place, lane_);
      const int columns = CountColumns(place);
      StepHead step;
      bool has_step = walker_.Next(&s_.steps[step_ % kStepRing], &step, lane_);
      const bool empty = !has_step && columns == 0;
      LoadQuery(slot, item, place, empty);

      while (has_step) {
        // The next step is looked up first: only then is it known whether this one is the last.
        StepHead following;
        const bool has_following = walker_.Next(&s_.steps[(step_ + 1) % kStepRing], &following, lane_);
        if (!has_following && columns == 0) step.flags |= kStepLast;
        LoadTile(step_, step, s_.k_empty, s_.k_full, s_.k[step_ % kStages], p_.k_tile, p_.k_segment);
        LoadTile(step_, step, s_.v_empty, s_.v_full, s_.v[step_ % kStages], p_.v_tile, p_.v_segment);
        ++step_;
        step = following;
        has_step = has_following;
      }
      for (int l = 0; l < 2; ++l) {
        if (jobs_[l].count == 0) continue;
        ColumnJob job = jobs_[l];
        job.step = step_;
        job.last = l == 1 || jobs_[1].count == 0;
        HandOut(job);
        TakeJob();
        Gather();
        step_ += (job.count + T::kTileColumns - 1) / T::kTileColumns;
      }
    }
  }

  // The next item of the queue, -1 at its end; fetched one item ahead.
  __device__ int FetchItem() {
    int item = -1;
    if (lane_ == 0) {
      const int place = atomicAdd(p_.next_item, 1);
      if (place < p_.num_items) item = p_.order[place];
    }
    return __shfl_sync(~0u, item, 0);
  }

  // Fills jobs_ and returns the number of columns in both lists.
  __device__ int CountColumns(const ItemPlace& place) {
    const int lists_per_item = kItemRows / p_.index.tile_rows;
    const int lists_per_head = (p_.index.seq_q + p_.index.tile_rows - 1) / p_.index.tile_rows;
    const int tile = place.tile * lists_per_item;
    const int64_t list =
        (static_cast<int64_t>(place.sequence) * p_.index.num_qo_heads + place.head) * lists_per_head + tile;
    const uint32_t quarters = lists_per_item == 1 ? Segment::kAllQuarters : 0x3u;
    for (int l = 0; l < 2; ++l) {
      const bool exists = l < lists_per_item && tile + l < lists_per_head;
      jobs_[l] = {place.sequence,
                  kv_head_,
                  exists ? p_.index.column_count[list + l] : 0,
                  l == 0 ? quarters : 0xcu,
                  0,
                  0,
                  exists ? p_.index.column_begin[list + l] : 0};
    }
    return jobs_[0].count + jobs_[1].count;
  }

  __device__ void LoadQuery(int slot, int item, const ItemPlace& place, bool empty) {
    if (lane_ == 0) {
      s_.work[slot] = {item, empty};
      if (empty) {
        Mbarrier::arrive(&s_.q_full[slot]);
      } else {
        Mbarrier::arrive_and_expect_tx(&s_.q_full[slot], T::kQueryBytes);
      }
    }
    __syncwarp();
    constexpr int kBoxes = T::kSlabs * kConsumerGroups;
    if (!empty && lane_ < kBoxes) {
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
    const Step& described = s_.steps[number % kStepRing];
    if (lane_ == 0) {
      s_.steps[number % kStepRing].flags = step.flags;
      Mbarrier::arrive_and_expect_tx(&full[slot], T::kStageBytes);
      ArriveMany(&full[slot], kFullArrivals - 1);
    }
    __syncwarp();
    const auto hint = static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_LAST);
    if (step.whole) {
      if (lane_ < T::kSlabs) {
        cute::SM90_TMA_LOAD_4D::copy(&whole, &full[slot], hint, stage + lane_ * T::kTileColumns * kSlabBytes,
                                     lane_ * 64, step.start, kv_head_, sequence_);
      }
    } else if (lane_ < T::kSlabs * T::kSegments) {
      const int slab = lane_ / T::kSegments;
      const int part = lane_ % T::kSegments;
      cute::SM90_TMA_LOAD_4D::copy(&segment, &full[slot], hint,
                                   stage + slab * T::kTileColumns * kSlabBytes + part * kSegmentRows * kSlabBytes,
                                   slab * 64, described.segments[part].start, kv_head_, sequence_);
    }
  }

  // Warp 0 passes a job to the warpgroup through shared memory. The barrier inside TakeJob() is met twice: the first
  // time the job is there, the second time everybody has read it.
  __device__ void HandOut(const ColumnJob& job) {
    if (lane_ == 0) *reinterpret_cast<ColumnJob*>(s_.job) = job;
    if (job.count < 0) TakeJob();
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
    int next_column = column_at(0);
    int step = job_.step;
    for (int first = 0; first < job_.count; first += T::kTileColumns, ++step) {
      const int column = next_column;
      next_column = column_at(first + T::kTileColumns);
      const int slot = step % kStages;
      const uint32_t parity = (step / kStages & 1) ^ 1;

      Mbarrier::wait(&s_.k_empty[slot], parity);
      GatherRows(k, p_.k_gather.row_stride, s_.k[slot], column);
      cutlass::arch::cpasync_barrier_arrive_noinc(&s_.k_full[slot]);
      if (threadIdx.x == 0) {
        Describe(step, first);
        Mbarrier::arrive(&s_.k_full[slot]);
      }
      Mbarrier::wait(&s_.v_empty[slot], parity);
      GatherRows(v, p_.v_gather.row_stride, s_.v[slot], column);
      cutlass::arch::cpasync_barrier_arrive_noinc(&s_.v_full[slot]);
      if (threadIdx.x == 0) Mbarrier::arrive(&s_.v_full[slot]);
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
  RunWalker<T> walker_;
  ColumnJob jobs_[2];
  ColumnJob job_;
  int step_ = 0;  // steps brought so far, over all items
  int kv_head_ = 0;
  int sequence_ = 0;
};

}  // namespace headscope::kernels::hopper
