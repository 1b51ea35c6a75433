// The scheduler's walk over an item's runs: cuts them into segments of at most 32 keys and packs the segments into
// tiles, so that short runs share a tile and the tensor cores see full width whatever the lists look like.
//
// A warp works on 32 runs at a time: each lane holds one, a prefix sum numbers their segments, and the lanes of a
// tile's segments look up the run that theirs belongs to. A batch is fetched while the one before is used.
#pragma once

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// The keys of one tile: lane i holds segment i.
struct Tile {
  uint32_t flags = 0;  // of the step; the same in every lane
  int start = 0;
  uint32_t packed = 0;
};

template <class T>
class RunWalker {
 public:
  __device__ RunWalker(const KernelParams& params, int lane) : p_(params), lane_(lane) {}

  // `lists` stays valid until the walk ends.
  __device__ void Start(const ItemLists& lists, int tile) {
    lists_ = &lists;
    on_second_ = lists.count == 1;
    quarters_ = lists.Quarters(0);
    // Under a causal rule nothing right of the item's last position is kept.
    const int last_row = min((tile + 1) * kItemRows, p_.index.seq_q) - 1;
    causal_end_ = p_.index.rule.kind == MaskKind::kNone ? p_.index.seq_k : p_.index.first_position + last_row + 1;
    total_ = taken_ = whole_left_ = 0;
    runs_ = p_.index.runs + lists.run_begin[0];
    unfetched_ = static_cast<int>(lists.run_count[0]);
    Prefetch();
  }

  // False when the runs are used up.
  __device__ bool Next(Tile* tile) {
    int filled = 0;
    uint32_t flags = 0;  // of this lane's segment
    // Segments that stay empty lie behind the last key, where TMA reads zeros.
    int start = p_.index.seq_k + kSegmentRows * lane_;
    uint32_t packed = 0;
    while (filled < T::kSegments) {
      if (taken_ == total_) {
        if (!TakeBatch()) break;
        continue;
      }
      if (filled == 0 && TakeWholeTile(tile)) return true;
      const int take = min(T::kSegments - filled, total_ - taken_);
      const int number = taken_ + lane_ - filled;
      int run = 0;  // the lane that holds this lane's run
      for (int i = 0; i < T::kSegments; ++i) {
        const int before = __popc(__ballot_sync(kAllLanes, ends_ <= taken_ + i - filled));
        if (lane_ == i) run = before;
      }
      const int run_start = __shfl_sync(kAllLanes, start_, run);
      const int run_length = __shfl_sync(kAllLanes, length_, run);
      const uint32_t run_tag = __shfl_sync(kAllLanes, tag_, run);
      const int run_end = __shfl_sync(kAllLanes, ends_, run);
      if (lane_ >= filled && lane_ < filled + take) {
        const int piece = number - (run_end - SegmentsOf(run_length));
        const int length = min(kSegmentRows, run_length - piece * kSegmentRows);
        start = run_start + piece * kSegmentRows;
        packed = static_cast<uint32_t>(length) | run_tag;
        if (length < kSegmentRows) {
          flags |= kStepMasked | (start + length < p_.index.seq_k ? kStepUnreadValues : 0u);
        }
        if (run_tag != Segment::Pack(0, false, Segment::kAllQuarters)) flags |= kStepMasked;
      }
      taken_ += take;
      filled += take;
    }
    if (filled == 0) return false;
    if (lane_ < T::kSegments && lane_ >= filled) flags |= kStepMasked;
    tile->flags = __reduce_or_sync(kAllLanes, flags);
    tile->start = start;
    tile->packed = packed;
    if ((tile->flags & kStepUnreadValues) == 0) tile->flags |= BoxesOf(start);
    return true;
  }

 private:
  __device__ static int SegmentsOf(int length) { return (length + kSegmentRows - 1) / kSegmentRows; }

  // Larger boxes than one per segment, where every segment is whole, masked or not: a box then brings nothing that the
  // segments would not.
  __device__ uint32_t BoxesOf(int start) const {
    const int before = __shfl_up_sync(kAllLanes, start, 1);
    const bool follows = start == before + kSegmentRows;
    const uint32_t breaks = __ballot_sync(kAllLanes, !follows) & ((1u << T::kSegments) - 2);
    if (breaks == 0) return kStepWhole;
    return (breaks & 0xau) == 0 ? kStepPairs : 0u;
  }

  // A tile that lies inside one run needs no look-up per segment: long runs go by at ten instructions a tile.
  __device__ bool TakeWholeTile(Tile* tile) {
    if (whole_left_ < T::kSegments) {
      whole_left_ = 0;
      if (!has_long_run_ || total_ - taken_ < T::kSegments) return false;
      const int run = __popc(__ballot_sync(kAllLanes, ends_ <= taken_));
      const int run_length = __shfl_sync(kAllLanes, length_, run);
      const int piece = taken_ - (__shfl_sync(kAllLanes, ends_, run) - SegmentsOf(run_length));
      const int left = run_length / kSegmentRows - piece;
      if (left < T::kSegments) return false;
      whole_left_ = left;
      whole_next_ = __shfl_sync(kAllLanes, start_, run) + piece * kSegmentRows;
      whole_tag_ = __shfl_sync(kAllLanes, tag_, run);
    }
    tile->flags = kStepWhole;
    if (whole_tag_ != Segment::Pack(0, false, Segment::kAllQuarters)) tile->flags |= kStepMasked;
    tile->start = whole_next_ + lane_ * kSegmentRows;
    tile->packed = static_cast<uint32_t>(kSegmentRows) | whole_tag_;
    whole_next_ += T::kTileColumns;
    whole_left_ -= T::kSegments;
    taken_ += T::kSegments;
    return true;
  }

  __device__ void Prefetch() {
    const int size = min(32, unfetched_);
    prefetched_ = lane_ < size ? runs_[lane_] : KeyRun{};
    prefetched_size_ = size;
    runs_ += size;
    unfetched_ -= size;
  }

  // Makes the prefetched runs the present batch. False at the end of the item.
  __device__ bool TakeBatch() {
    while (prefetched_size_ == 0) {
      if (on_second_) return false;
      on_second_ = true;
      quarters_ = lists_->Quarters(1);
      runs_ = p_.index.runs + lists_->run_begin[1];
      unfetched_ = static_cast<int>(lists_->run_count[1]);
      Prefetch();
    }
    const KeyRun run = prefetched_;
    start_ = run.start;
    length_ = run.Partial() ? max(0, min(run.End(), causal_end_) - run.start) : run.Length();
    const uint32_t upper = quarters_ == Segment::kAllQuarters ? 0x3u : quarters_ & 0x5u;
    const uint32_t half = (run.Flags() & kRunUpperHalf) != 0 ? upper : quarters_ & ~upper;
    const bool split = (run.Flags() & (kRunUpperHalf | kRunLowerHalf)) != 0;
    tag_ = Segment::Pack(0, run.Partial(), split ? half : quarters_);
    ends_ = SegmentsOf(length_);
    for (int offset = 1; offset < 32; offset *= 2) {
      const int below = __shfl_up_sync(kAllLanes, ends_, offset);
      if (lane_ >= offset) ends_ += below;
    }
    total_ = __shfl_sync(kAllLanes, ends_, 31);
    taken_ = whole_left_ = 0;
    has_long_run_ = __any_sync(kAllLanes, length_ >= T::kTileColumns);
    Prefetch();
    return true;
  }

  const KernelParams& p_;
  const int lane_;
  // This lane's run of the present batch, and the number of segments up to its end.
  int start_;
  int length_;
  int ends_;
  uint32_t tag_;
  int total_;  // segments of the batch
  int taken_;
  bool has_long_run_ = false;  // some run of the batch holds a whole tile
  int whole_left_ = 0;         // whole segments left of the run that the next segment belongs to; 0: not known
  int whole_next_;             // its next key
  uint32_t whole_tag_;
  KeyRun prefetched_;
  int prefetched_size_;
  const KeyRun* runs_;
  int unfetched_;
  int causal_end_;
  const ItemLists* lists_;
  bool on_second_;  // or there is none
  uint32_t quarters_;
};

}  // namespace headscope::kernels::hopper
