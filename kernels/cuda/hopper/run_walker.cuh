// The producer's walk over an item's runs: cuts them into pieces of at most 32 keys and packs the pieces into tiles, so
// that short runs share a tile and the tensor cores see full width whatever the lists look like. A long full run goes
// by whole tiles.
//
// All 32 lanes of a warp walk together on the same values; runs are fetched 32 at a time, one batch ahead.
#pragma once

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// Reads one list. `quarters`: the item's row quarters that the list's tile covers.
class RunCursor {
 public:
  __device__ void Start(const KernelParams& p, int64_t list, int row_begin, uint32_t upper, uint32_t lower, int lane) {
    runs_ = p.index.runs + p.index.run_begin[list];
    unfetched_ = p.index.run_count[list];
    upper_ = upper;
    lower_ = lower;
    // Under a causal rule nothing right of the last row's position is kept.
    const int last_row = min(row_begin + p.index.tile_rows, p.index.seq_q) - 1;
    causal_end_ = p.index.rule.kind == MaskKind::kNone ? p.index.seq_k : p.index.first_position + last_row + 1;
    batch_left_ = 0;
    length_ = 0;
    Prefetch(lane);
    Advance(lane);
  }
  __device__ void StartEmpty() { length_ = 0; }

  __device__ bool done() const { return length_ == 0; }
  __device__ int start() const { return start_; }
  __device__ int length() const { return length_; }
  __device__ bool partial() const { return partial_; }
  __device__ uint32_t quarters() const { return quarters_; }

  __device__ void Consume(int keys, int lane) {
    start_ += keys;
    length_ -= keys;
    if (length_ == 0) Advance(lane);
  }

 private:
  __device__ void Prefetch(int lane) {
    prefetched_ = lane < unfetched_ ? runs_[lane] : KeyRun{};
    prefetched_size_ = min(32, unfetched_);
    runs_ += prefetched_size_;
    unfetched_ -= prefetched_size_;
  }

  __device__ void Advance(int lane) {
    do {
      if (batch_left_ == 0) {
        if (prefetched_size_ == 0) return;  // length_ stays 0
        batch_ = prefetched_;
        batch_left_ = prefetched_size_;
        Prefetch(lane);
      }
      KeyRun run = batch_;
      run.start = __shfl_sync(~0u, batch_.start, 0);
      run.packed = __shfl_sync(~0u, batch_.packed, 0);
      // Lane 0 holds the next one.
      batch_.start = __shfl_down_sync(~0u, batch_.start, 1);
      batch_.packed = __shfl_down_sync(~0u, batch_.packed, 1);
      --batch_left_;
      start_ = run.start;
      partial_ = run.Partial();
      length_ = partial_ ? max(0, min(run.End(), causal_end_) - run.start) : run.Length();
      const uint32_t flags = run.Flags();
      quarters_ = (flags & kRunUpperHalf) != 0 ? upper_ : (flags & kRunLowerHalf) != 0 ? lower_ : upper_ | lower_;
    } while (length_ == 0);
  }

  const KeyRun* runs_;
  int unfetched_;
  int prefetched_size_;
  int batch_left_;
  KeyRun batch_;
  KeyRun prefetched_;
  int causal_end_;
  uint32_t upper_;
  uint32_t lower_;
  int start_;
  int length_;
  bool partial_;
  uint32_t quarters_;
};

// The keys of one tile, in registers; the segments themselves go to the ring of steps.
struct StepHead {
  uint32_t flags;
  bool whole;  // one run of a tile's width: brought by one box per slab
  int start;   // of segment 0
};

template <class T>
class RunWalker {
 public:
  __device__ void Start(const KernelParams& p, const ItemPlace& place, int lane) {
    seq_k_ = p.index.seq_k;
    merge_partial_ = p.index.rule.kind != MaskKind::kCausalWindow;
    const int lists_per_item = kItemRows / p.index.tile_rows;
    const int lists_per_head = (p.index.seq_q + p.index.tile_rows - 1) / p.index.tile_rows;
    const int tile = place.tile * lists_per_item;
    const int64_t list =
        (static_cast<int64_t>(place.sequence) * p.index.num_qo_heads + place.head) * lists_per_head + tile;
    if (lists_per_item == 1) {
      first_.Start(p, list, tile * kItemRows, 0x3u, 0xcu, lane);
      second_.StartEmpty();
    } else {
      first_.Start(p, list, tile * 64, 0x1u, 0x2u, lane);
      if (tile + 1 < lists_per_head) {
        second_.Start(p, list + 1, tile * 64 + 64, 0x4u, 0x8u, lane);
      } else {
        second_.StartEmpty();
      }
    }
  }

  // Writes the next tile's segments to *step (lane 0 does). False when the runs are used up.
  __device__ bool Next(Step* step, StepHead* head, int lane) {
    int filled = 0;
    uint32_t flags = 0;
    head->whole = false;
    while (filled < T::kSegments) {
      Piece piece;
      if (!Peek(&piece)) break;
      if (filled == 0 && piece.length >= T::kTileColumns && !piece.partial && piece.quarters == Segment::kAllQuarters) {
        Take(piece, T::kTileColumns, lane);
        *head = {0, true, piece.start};
        return true;
      }
      const int length = min(piece.length, kSegmentRows);
      if (lane == 0) step->segments[filled] = {piece.start, Segment::Pack(length, piece.partial, piece.quarters)};
      if (filled == 0) head->start = piece.start;
      if (length < kSegmentRows) {
        flags |= kStepMasked;
        if (piece.start + length < seq_k_) flags |= kStepUnreadValues;
      }
      if (piece.partial || piece.quarters != Segment::kAllQuarters) flags |= kStepMasked;
      Take(piece, length, lane);
      ++filled;
    }
    if (filled == 0) return false;
    // A segment behind the last key reads as zeros.
    for (; filled < T::kSegments; ++filled) {
      if (lane == 0) step->segments[filled] = {seq_k_, 0};
      flags |= kStepMasked;
    }
    head->flags = flags;
    return true;
  }

 private:
  struct Piece {
    int start;
    int length;
    bool partial;
    uint32_t quarters;
    bool from_first;
    bool from_second;
  };

  // The keys that come next and the rows that they belong to. With two lists (64-row tiles), equal parts are loaded
  // once for both.
  __device__ bool Peek(Piece* piece) const {
    const bool has_first = !first_.done();
    const bool has_second = !second_.done();
    if (!has_first && !has_second) return false;
    if (has_first && has_second) {
      const int first_start = first_.start();
      const int second_start = second_.start();
      if (first_start == second_start && (merge_partial_ || first_.partial() == second_.partial())) {
        // A full run may join a partial one: it ends before its rows' diagonal, so the causal rule keeps all of it.
        *piece = {first_start,
                  min(first_.length(), second_.length()),
                  first_.partial() || second_.partial(),
                  first_.quarters() | second_.quarters(),
                  true,
                  true};
        return true;
      }
      const bool first = first_start <= second_start;
      const RunCursor& cursor = first ? first_ : second_;
      int length = cursor.length();
      const int other_start = first ? second_start : first_start;
      if (other_start > cursor.start()) length = min(length, other_start - cursor.start());
      *piece = {cursor.start(), length, cursor.partial(), cursor.quarters(), first, !first};
      return true;
    }
    const RunCursor& cursor = has_first ? first_ : second_;
    *piece = {cursor.start(), cursor.length(), cursor.partial(), cursor.quarters(), has_first, has_second};
    return true;
  }

  __device__ void Take(const Piece& piece, int keys, int lane) {
    if (piece.from_first) first_.Consume(keys, lane);
    if (piece.from_second) second_.Consume(keys, lane);
  }

  RunCursor first_;
  RunCursor second_;
  int seq_k_;
  bool merge_partial_;
};

}  // namespace headscope::kernels::hopper
