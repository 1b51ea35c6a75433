// SPDX-License-Identifier: Apache-2.0
// The scheduler's walk over an item's runs: covers their keys with segments of 32 and packs four segments into a tile,
// so that short runs share a tile and the tensor cores see full width whatever the lists look like.
//
// A segment begins at the first key that is still to be taken and brings 32 neighbouring keys; two words of bits say
// which of them the upper and which the lower rows keep. So it takes the pieces of all runs in it, of either half.
//
// A warp works on up to 32 runs at a time, each lane on what is left of one, and brings in more when those of half its
// lanes are used up. All starts and bits come from reductions over the lanes. Where the lanes hold every run that the
// segments of a tile touch, no other cover by 32 keys has fewer segments; where runs are so short and dense that they
// do not, a segment ends at the last run that the lanes hold, and one more begins behind it.
//
// Runs are cut to what some row of theirs keeps: the rest of a partial run is read by nobody, and what is read by
// nobody must not reach the product, because 0 * NaN is NaN. Under a causal rule that is what lies behind the rows'
// last position; under a window also what lies between the sinks and the first row's window, so that a partial run can
// fall into two parts, which go in different walks.
//
// Where a list ends with whole tiles on the diagonal, these go second. The first keys and the newest hold the largest
// scores of most heads, and a row that meets them early raises its shift once (softmax.cuh).
#pragma once

#include "hopper/key_bits.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// The keys of one tile; the same in every lane.
struct Tile {
  uint32_t flags = 0;           // of the step
  uint32_t upper_quarters = 0;  // row quarters of the item that `upper` speaks
                                // of; those in neither set keep nothing
  uint32_t lower_quarters = 0;
  int start[kMaxSegments] = {};
  uint32_t upper[kMaxSegments] = {};  // bit j: kept key start + j
  uint32_t lower[kMaxSegments] = {};
};

template <class T>
class RunWalker {
 public:
  __device__ RunWalker(const KernelParams& params, int lane) : p_(params), lane_(lane) {}

  // Of packed sequences, in front of Start(): rows and keys of the item's own.
  __device__ void SetSequence(int seq_q, int seq_k, int first_position) {
    static_assert(T::kPacked);
    own_seq_q_ = seq_q;
    own_seq_k_ = seq_k;
    own_first_position_ = first_position;
  }
  // Where a segment begins that has no key.
  __device__ int BehindLastKey() const {
    return T::kPacked ? (own_seq_k_ + kSegmentRows - 1) / kSegmentRows * kSegmentRows : p_.index.seq_k;
  }

  // `lists` stays valid until the walk ends.
  __device__ void Start(const ItemLists& lists, int tile) {
    lists_ = &lists;
    item_begin_ = tile * kItemRows;
    list_ = 0;
    walk_ = kFullRuns;
    reaches_sinks_ = false;
    begin_ = end_ = 0;
    whole_left_ = 0;
    diagonal_left_ = 0;
    taken_any_ = false;
    StartWalk();
  }

  // Behind Start(), in front of the first HasNext(): whole tiles on the diagonal are taken second. Only where all runs
  // are at hand already, as in dense, block and window lists: to look for the last of hundreds would keep the item
  // waiting.
  __device__ void TakeDiagonalEarly() {
    if (lists_->count != 1 || p_.index.rule.kind != MaskKind::kCausal || unfetched_ < 2 || unfetched_ > 32) return;
    KeyRun last;
    last.start = __shfl_sync(kAllLanes, prefetched_.start, unfetched_ - 1);
    last.packed = __shfl_sync(kAllLanes, prefetched_.packed, unfetched_ - 1);
    const int length = min(last.End(), first_position_ + num_rows_) - last.start;
    if (last.Flags() != kRunPartial || length <= 0 || length % T::kTileColumns != 0) return;
    if (SegmentAt(last.start) != last.start) return;
    diagonal_next_ = last.start;
    diagonal_left_ = length / T::kTileColumns;
    --unfetched_;
    if (lane_ == unfetched_) prefetched_ = {};
  }

  // False when the runs are used up.
  __device__ bool HasNext() { return whole_left_ > 0 || DiagonalIsDue() || FillBatch(); }

  // Only after HasNext() was true.
  __device__ Tile Next() {
    Tile tile{.upper_quarters = upper_quarters_, .lower_quarters = lower_quarters_};
    if (DiagonalIsDue()) {
      TakeWholeTile(diagonal_next_, true, &tile);
      diagonal_next_ += T::kTileColumns;
      --diagonal_left_;
      return tile;
    }
    if (whole_left_ == 0) FindWholeTiles();
    if (whole_left_ > 0) {
      TakeWholeTile(whole_next_, whole_partial_, &tile);
      whole_next_ += T::kTileColumns;
      --whole_left_;
    } else {
      TakeSegments(&tile);
    }
    taken_any_ = true;
    return tile;
  }

 private:
  static constexpr int kNoKey = 1 << 29;  // behind every key

  __device__ bool DiagonalIsDue() const { return diagonal_left_ > 0 && taken_any_; }

  // One walk per list. A window rules over partial runs alone, so under one the full runs go first, then what the
  // partial ones have of the sinks, then what they have of the rows' windows.
  enum WindowedWalk { kFullRuns, kSinks, kWindows };
  __device__ bool Windowed() const { return p_.index.rule.kind == MaskKind::kCausalWindow; }

  // False behind the item's last walk.
  __device__ bool NextWalk() {
    if (Windowed() && walk_ != kWindows) {
      // Sinks are hardly ever in partial runs, and a walk that finds nothing waits for its runs all the same.
      walk_ = walk_ == kFullRuns && __any_sync(kAllLanes, reaches_sinks_) ? kSinks : kWindows;
    } else {
      if (++list_ == lists_->count) return false;
      walk_ = kFullRuns;
      reaches_sinks_ = false;
    }
    StartWalk();
    return true;
  }

  __device__ void StartWalk() {
    const uint32_t quarters = lists_->Quarters(list_);
    upper_quarters_ = lists_->count == 1 ? 0x3u : quarters & 0x5u;
    lower_quarters_ = quarters & ~upper_quarters_;
    const int first_row = item_begin_ + list_ * p_.index.tile_rows;
    first_position_ = (T::kPacked ? own_first_position_ : p_.index.first_position) + first_row;
    num_rows_ = min(p_.index.tile_rows, (T::kPacked ? own_seq_q_ : p_.index.seq_q) - first_row);
    runs_ = p_.index.runs + lists_->run_begin[list_];
    unfetched_ = static_cast<int>(lists_->run_count[list_]);
    Prefetch(0);
  }

  // The lane's run becomes `run`, cut to the keys that this walk takes of it.
  __device__ void Take(KeyRun run) {
    begin_ = run.start;
    end_ = run.End();
    flags_ = run.Flags();
    // Without a rule all of a partial run is kept.
    if (p_.index.rule.kind == MaskKind::kNone) flags_ &= ~static_cast<uint32_t>(kRunPartial);
    const int half = p_.index.tile_rows / 2;
    const int first_row = (flags_ & kRunLowerHalf) != 0 ? half : 0;
    const int end_row = (flags_ & kRunUpperHalf) != 0 ? min(half, num_rows_) : num_rows_;
    if ((flags_ & kRunPartial) != 0) end_ = min(end_, first_position_ + end_row);
    if (Windowed()) {
      const int sinks = p_.index.rule.num_sinks;
      reaches_sinks_ |= run.Partial() && begin_ < sinks;
      if (run.Partial() != (walk_ != kFullRuns)) end_ = begin_;
      if (walk_ == kSinks) end_ = min(end_, sinks);
      if (walk_ == kWindows) begin_ = max(begin_, max(sinks, first_position_ + first_row + 1 - p_.index.rule.window));
    }
    // Rows behind the last one keep nothing.
    if (first_row >= end_row) end_ = begin_;
  }

  // Makes the prefetch hold the runs `taken` behind those that it holds.
  __device__ void Prefetch(int taken) {
    runs_ += taken;
    unfetched_ = max(0, unfetched_ - taken);
    prefetched_ = lane_ < unfetched_ ? runs_[lane_] : KeyRun{};
  }

  // Brings new runs in when half of the batch is used up. False at the end of the item; else some run has keys left.
  __device__ bool FillBatch() {
    while (true) {
      const uint32_t live = __ballot_sync(kAllLanes, begin_ < end_);
      if ((live & 0xffffu) != 0) return true;
      if (unfetched_ > 0) {
        ShiftBatch(live == 0 ? 32 : 16);
      } else if (live != 0) {
        return true;
      } else if (!NextWalk()) {
        return false;
      }
    }
  }

  __device__ void ShiftBatch(int shift) {
    const int from = lane_ + shift;
    KeyRun run = prefetched_;
    run.start = __shfl_sync(kAllLanes, run.start, from % 32);
    run.packed = __shfl_sync(kAllLanes, run.packed, from % 32);
    begin_ = __shfl_sync(kAllLanes, begin_, from % 32);
    end_ = __shfl_sync(kAllLanes, end_, from % 32);
    flags_ = __shfl_sync(kAllLanes, flags_, from % 32);
    if (from >= 32) Take(run);
    Prefetch(shift);
  }

  // A run of both halves has no other beside it, so the tiles that lie inside it need no look-up: long runs go by at
  // ten instructions a tile.
  __device__ void FindWholeTiles() {
    if (!__any_sync(kAllLanes, end_ - begin_ >= T::kTileColumns)) return;
    const int first = FirstKey(begin_);
    const bool whole = begin_ == first && SegmentAt(begin_) == begin_ && end_ - begin_ >= T::kTileColumns &&
                       (flags_ & (kRunUpperHalf | kRunLowerHalf)) == 0;
    const uint32_t holders = __ballot_sync(kAllLanes, whole);
    if (holders == 0) return;
    const int holder = __ffs(static_cast<int>(holders)) - 1;
    const int tiles = (end_ - begin_) / T::kTileColumns;
    whole_next_ = first;
    whole_left_ = __shfl_sync(kAllLanes, tiles, holder);
    whole_partial_ = (__shfl_sync(kAllLanes, flags_, holder) & kRunPartial) != 0;
    if (whole) begin_ += tiles * T::kTileColumns;
  }

  __device__ void TakeWholeTile(int first, bool partial, Tile* tile) const {
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; ++i) {
      tile->start[i] = first + i * kSegmentRows;
      tile->upper[i] = tile->lower[i] = ~0u;
    }
    tile->flags = kStepWhole | (partial ? kStepMasked | kStepRuled : 0u);
    if (lists_->count != 1) tile->flags |= kStepMasked;
  }

  // Where the segment begins that brings `key` first.
  __device__ static int SegmentAt(int key) { return T::kAlignedSegments ? key - key % kSegmentRows : key; }

  // The first key at or behind `from` that this walk has to take; `from` differs from lane to lane.
  __device__ int FirstKey(int from) const { return __reduce_min_sync(kAllLanes, from < end_ ? from : kNoKey); }

  __device__ void TakeSegments(Tile* tile) {
    int next = begin_;
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; ++i) {
      tile->start[i] = SegmentAt(FirstKey(next));
      next = max(next, tile->start[i] + kSegmentRows);
    }

    uint32_t missing = lists_->count == 1 ? 0u : ~0u;
    bool ruled = false;
    uint32_t holes = 0;
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; ++i) {
      const uint32_t bits = BitsBelow(end_ - tile->start[i]) & ~BitsBelow(begin_ - tile->start[i]);
      tile->upper[i] = __reduce_or_sync(kAllLanes, (flags_ & kRunLowerHalf) != 0 ? 0u : bits);
      tile->lower[i] = __reduce_or_sync(kAllLanes, (flags_ & kRunUpperHalf) != 0 ? 0u : bits);
      ruled |= bits != 0 && (flags_ & kRunPartial) != 0;
      missing |= ~(tile->upper[i] & tile->lower[i]);
      // Behind the last key TMA brings zeros; behind a packed sequence's it may bring another's keys.
      const uint32_t brought = !T::kPacked                   ? BitsBelow(p_.index.seq_k - tile->start[i])
                               : tile->start[i] < own_seq_k_ ? ~0u
                                                             : 0u;
      holes |= ~(tile->upper[i] | tile->lower[i]) & brought;
      tile->start[i] = min(tile->start[i], BehindLastKey());
    }
    begin_ = next;
    if (__any_sync(kAllLanes, ruled)) tile->flags |= kStepRuled | kStepMasked;
    if (missing != 0) tile->flags |= kStepMasked;
    if (holes != 0) tile->flags |= kStepUnreadValues;
    tile->flags |= BoxesOf(tile->start);
  }

  // Larger boxes than one per segment, where segments are neighbours.
  __device__ static uint32_t BoxesOf(const int (&start)[kMaxSegments]) {
    uint32_t breaks = 0;
    CUTE_UNROLL
    for (int i = 1; i < T::kSegments; ++i) breaks |= start[i] != start[i - 1] + kSegmentRows ? 1u << i : 0u;
    if (breaks == 0) return kStepWhole;
    return (breaks & 0xau) == 0 ? kStepPairs : 0u;
  }

  const KernelParams& p_;
  const int lane_;
  int own_seq_q_ = 0, own_seq_k_ = 0, own_first_position_ = 0;  // of packed sequences alone
  // What is left of this lane's run: keys [begin_, end_). Keys are taken in order, by all lanes.
  int begin_;
  int end_;
  uint32_t flags_ = 0;  // RunFlags
  int whole_left_;      // tiles to be taken of the run that begins at whole_next_
  int whole_next_;
  bool whole_partial_;
  int diagonal_left_;  // tiles to be taken from diagonal_next_ on, second
  int diagonal_next_;
  bool taken_any_;
  KeyRun prefetched_;   // the run `lane_` behind the batch
  const KeyRun* runs_;  // the first of those
  int unfetched_;       // runs from there on
  int item_begin_;      // first row of the item
  int first_position_;  // of the list's first row
  int num_rows_;        // of the list
  bool reaches_sinks_;  // a partial run that this lane has seen holds sinks
  const ItemLists* lists_;
  int list_;
  WindowedWalk walk_;  // of the list; without a window there is one
  uint32_t upper_quarters_;
  uint32_t lower_quarters_;
};

}  // namespace headscope::kernels::hopper
