// SPDX-License-Identifier: Apache-2.0
// The warp that writes one list. See lists.h.
#pragma once

#include <cuda_runtime.h>

#include "dependent_launch.cuh"
#include "select/lists.h"
#include "select/state_change.cuh"

namespace headscope::kernels::selection {

constexpr int kListThreads = 128;

// What 64 neighbouring units of keys are to a list, one bit each. A unit is 2^kUnitShift keys.
struct KeptUnits {
  uint64_t upper = 0;    // ranges of the upper half of the rows
  uint64_t lower = 0;    // of the lower half
  uint64_t columns = 0;  // single columns, for all rows; only where a unit is one key
};

// Positions of a tile's rows.
struct TilePositions {
  int32_t first;
  int32_t last;

  __device__ bool HasLower() const { return last >= first + kHalfRows; }
};

__device__ inline TilePositions PositionsOfTile(const ListShape& shape, int32_t tile) {
  const int32_t row = tile * kTileRows;
  return {shape.first_position + row, shape.first_position + min(row + kTileRows, shape.seq_q) - 1};
}

// The n lowest bits; all for n >= 64, none for n <= 0.
__device__ inline uint64_t LowBits(int32_t n) {
  return n >= 64 ? ~uint64_t{0} : n <= 0 ? 0 : (uint64_t{1} << n) - 1;
}

struct ListCounts {
  int32_t runs = 0;
  int32_t columns = 0;
};

// Changes in order, in shared memory, on their way from the lanes that found them to lanes that write a run each. Room
// for what stays behind (32) and for more than nearly every step finds: a list of scattered blocks has 320 changes.
constexpr int kChangeQueue = 512;

// One for each warp, whatever it writes.
__device__ inline StateChange* QueueOfWarp() {
  __shared__ StateChange queues[kListThreads / 32][kChangeQueue];
  return queues[threadIdx.x / 32];
}

// Walks the units of one list, 64 per lane, and writes its runs and columns in order. Changes are few and unevenly
// spread over the lanes, so each lane only notes its own in a queue, and a run is made of two neighbours there, by a
// lane each.
//
// A run ends where the state of the units changes: whether the upper and whether the lower rows keep them, and whether
// the diagonal may cut them. Three choices keep runs few and long, since each begins a new box of keys in the executor:
// - Right of the upper rows' last position only the lower rows count, and what they keep is a run of both, which the
//   causal mask takes from the upper rows.
// - A column inside a run of one half is cut out of it and stays a single column: a run of its own would take the place
//   of 32 keys.
// - The diagonal cuts a run once, at the start of the unit in which it begins.
// What of a list a warp writes.
enum class ListPart { kAll, kRuns, kColumns };

template <int kUnitShift, ListPart kPart = ListPart::kAll>
class ListWriter {
 public:
  __device__ ListWriter(TilePositions rows, KeyRun* runs, int32_t* columns)
      : rows_(rows), lane_(static_cast<int>(threadIdx.x) % 32), runs_(runs), columns_(columns), queue_(QueueOfWarp()) {
    if (lane_ == 0) queue_[0] = StateChange::Make(0, 0);
  }

  // load(word) gives units [64 word, 64 word + 64); those in front of word `first` are written. All lanes call it.
  template <class Load>
  __device__ ListCounts Write(Load&& load, int32_t first = 0) {
    const int32_t last_unit = rows_.last >> kUnitShift;
    // One unit behind the last, so that a run which reaches the end is closed.
    const int32_t num_words = (last_unit + 1) / 64 + 1;
    // Words in front of this one hold nothing that the diagonal cuts or masks.
    const int32_t first_near_word = (rows_.first >> kUnitShift) / 64;
    for (; first + 32 <= first_near_word; first += 32) Step</*kNear=*/false>(first + lane_, load(first + lane_));
    for (; first < num_words; first += 32) {
      const int32_t word = first + lane_;
      Step</*kNear=*/true>(word, word < num_words ? load(word) : KeptUnits{});
    }
    WriteRuns(/*left=*/1);
    return counts_;
  }

 protected:
  static constexpr unsigned kFullWarp = 0xffffffffu;

  // What the caller has written ends with the state that `open` begins.
  __device__ void GoOn(StateChange open) {
    if (lane_ == 0) queue_[0] = open;
    state_ = open.State();
    __syncwarp();
  }

  const TilePositions rows_;
  const int lane_;
  KeyRun* const runs_;
  int32_t* const columns_;
  ListCounts counts_;

 private:
  // Units from the one of `key` on, of those that begin at first_unit.
  __device__ static uint64_t UnitsFrom(int32_t key, int32_t first_unit) {
    return ~LowBits((key >> kUnitShift) - first_unit);
  }

  // Takes what the rows cannot see from the units, and returns which of them the diagonal may cut.
  __device__ uint64_t ClipAtDiagonal(int32_t first_unit, KeptUnits& units) const {
    const uint64_t inside = LowBits((rows_.last >> kUnitShift) + 1 - first_unit);
    units.upper &= inside;
    units.lower &= inside;
    units.columns &= inside;
    if (!rows_.HasLower()) units.lower = units.upper;
    constexpr int32_t kUnitKeys = 1 << kUnitShift;
    const uint64_t lower_only = UnitsFrom(rows_.first + kHalfRows + kUnitKeys - 1, first_unit);
    units.upper = (units.upper & ~lower_only) | (units.lower & lower_only);
    // A column that not every row may see needs the mask, and so a run.
    const uint64_t masked = units.columns & UnitsFrom(rows_.first + 1, first_unit);
    units.upper |= masked;
    units.lower |= masked;
    // All rows see the first row's own position; a run that goes on behind it is masked from there.
    const uint64_t upper_cut = UnitsFrom(rows_.first + (rows_.last == rows_.first ? 1 : 0), first_unit);
    return (units.upper & upper_cut) | (units.lower & UnitsFrom(rows_.first + kHalfRows, first_unit));
  }

  template <bool kNear>
  __device__ __forceinline__ void Step(int32_t word, KeptUnits units) {
    uint64_t cut = 0;
    uint64_t singles = 0;
    if constexpr (kNear) cut = ClipAtDiagonal(word * 64, units);
    if constexpr (kUnitShift == 0) {
      singles = units.columns & ~(units.upper & units.lower);
      units.upper &= ~singles;
      units.lower &= ~singles;
      if constexpr (kPart == ListPart::kRuns) singles = 0;
    }

    // Where the state differs from the one in front.
    auto top_bit = [](uint64_t bits) { return static_cast<uint32_t>(bits >> 63); };
    const uint32_t last = top_bit(units.upper) | top_bit(units.lower) << 1 | top_bit(cut) << 2;
    uint32_t before = __shfl_up_sync(kFullWarp, last, 1);
    if (lane_ == 0) before = state_;
    state_ = __shfl_sync(kFullWarp, last, 31);
    uint64_t changes =
        (units.upper ^ (units.upper << 1 | (before & 1))) | (units.lower ^ (units.lower << 1 | (before >> 1 & 1)));
    if constexpr (kNear) changes |= cut ^ (cut << 1 | before >> 2);
    if constexpr (kPart == ListPart::kColumns) changes = 0;
    if (!__any_sync(kFullWarp, (changes | singles) != 0)) return;

    // Both prefix sums at once: at most 32 * 64 each.
    const int32_t num_changes = __popcll(changes);
    const int32_t num_singles = __popcll(singles);
    uint32_t sums = static_cast<uint32_t>(num_changes) | static_cast<uint32_t>(num_singles) << 16;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const uint32_t below = __shfl_up_sync(kFullWarp, sums, offset);
      if (lane_ >= offset) sums += below;
    }
    const uint32_t totals = __shfl_sync(kFullWarp, sums, 31);
    if constexpr (kUnitShift == 0) {
      int32_t next = counts_.columns + static_cast<int32_t>(sums >> 16) - num_singles;
      ForEachBit(singles, [&](int half, int bit) { columns_[next++] = word * 64 + 32 * half + bit; });
      counts_.columns += static_cast<int32_t>(totals >> 16);
    }
    Enqueue(changes, static_cast<int32_t>(sums & 0xffff) - num_changes, static_cast<int32_t>(totals & 0xffff),
            [&](int half, int bit) {
              auto bit_of = [&](uint64_t bits) { return static_cast<uint32_t>(bits >> (32 * half)) >> bit & 1; };
              uint32_t state = bit_of(units.upper) | bit_of(units.lower) << 1;
              if constexpr (kNear) state |= bit_of(cut) << 2;
              return StateChange::Make(word * 64 + 32 * half + bit, state);
            });
  }

  // Half by half: steps on 32 bits are a third of the work of those on 64. use(half, bit of the half).
  template <class Use>
  __device__ __forceinline__ static void ForEachBit(uint64_t bits, Use&& use) {
    for (auto left = static_cast<uint32_t>(bits); left != 0; left &= left - 1) {
      use(0, __ffs(static_cast<int>(left)) - 1);
    }
    for (auto left = static_cast<uint32_t>(bits >> 32); left != 0; left &= left - 1) {
      use(1, __ffs(static_cast<int>(left)) - 1);
    }
  }

  // Puts the lanes' changes into the queue, lane by lane. before: those of the lanes below; total: of all lanes.
  // change_at(half, bit): what to put there for a bit of a half of `changes`.
  template <class ChangeAt>
  __device__ __forceinline__ void Enqueue(uint64_t changes, int32_t before, int32_t total, ChangeAt&& change_at) {
    int32_t next = queued_ + before;
    if (queued_ + total <= kChangeQueue) {
      ForEachBit(changes, [&](int half, int bit) { queue_[next++] = change_at(half, bit); });
      queued_ += total;
      __syncwarp();
      WriteRuns(/*left=*/32);
      return;
    }
    // More than there is room for: as many at a time as fit.
    for (int32_t end = queued_ + total; end > 0;) {
      for (; changes != 0 && next < kChangeQueue; changes &= changes - 1, ++next) {
        const int bit = __ffsll(static_cast<long long>(changes)) - 1;
        queue_[next] = change_at(bit / 32, bit % 32);
      }
      const int32_t filled = min(end, kChangeQueue);
      queued_ = filled;
      __syncwarp();
      WriteRuns(/*left=*/32);
      // What is still to come lies behind what is left.
      const int32_t written = filled - queued_;
      next -= written;
      end = end > filled ? end - written : 0;
    }
  }

  // Writes the runs between queued changes until at most `left` of these are left, 1 to 32. One always stays: its run
  // goes on.
  __device__ __forceinline__ void WriteRuns(int32_t left) {
    int32_t first = 0;
    while (queued_ - first > left) {
      const int32_t num_runs = min(queued_ - first - 1, 32);
      KeyRun run{};
      bool kept = false;
      if (lane_ < num_runs) {
        const StateChange from = queue_[first + lane_];
        const int32_t begin = from.Unit() << kUnitShift;
        const int32_t end = min(queue_[first + lane_ + 1].Unit() << kUnitShift, rows_.last + 1);
        const uint32_t halves = from.State() & 3;
        kept = halves != 0;
        uint32_t flags = halves == 3 ? 0u : halves == 1 ? kRunUpperHalf : kRunLowerHalf;
        if ((from.State() & 4) != 0) flags |= kRunPartial;
        run = KeyRun::Make(begin, end - begin, flags);
      }
      const uint32_t votes = __ballot_sync(kFullWarp, kept);
      if (kept) runs_[counts_.runs + __popc(votes & ((1u << lane_) - 1))] = run;
      counts_.runs += __popc(votes);
      first += num_runs;
    }
    if (first == 0) return;
    queued_ -= first;
    StateChange moved{};
    if (lane_ < queued_) moved = queue_[first + lane_];
    __syncwarp();
    if (lane_ < queued_) queue_[lane_] = moved;
    __syncwarp();
  }

  StateChange* const queue_;
  int32_t queued_ = 1;  // the first is where the present state began
  uint32_t state_ = 0;  // of the last unit so far
};

// Thread blocks of kListThreads for that many warps.
inline unsigned BlocksOfWarps(int64_t num_warps) {
  constexpr int64_t kWarps = kListThreads / 32;
  return static_cast<unsigned>((num_warps + kWarps - 1) / kWarps);
}

__device__ inline void StoreRunCount(const ListArrays& arrays, int64_t list, int64_t slot, ListCounts counts) {
  arrays.run_begin[list] = slot * arrays.run_capacity;
  arrays.run_count[list] = counts.runs;
}
__device__ inline void StoreColumnCount(const ListArrays& arrays, int64_t list, int64_t slot, ListCounts counts) {
  arrays.column_begin[list] = slot * arrays.column_capacity;
  arrays.column_count[list] = counts.columns;
}
__device__ inline void StoreCounts(const ListArrays& arrays, int64_t list, int64_t slot, ListCounts counts) {
  StoreRunCount(arrays, list, slot, counts);
  StoreColumnCount(arrays, list, slot, counts);
}

// A warp per list. Source: static constexpr int kUnitShift; Open(shape, list, tile, rows) gives what load(word) needs.
template <class Source>
__global__ void __launch_bounds__(kListThreads)
    WriteListsKernel(const Source source, const ListShape shape, const ListArrays arrays) {
  const int64_t list = (static_cast<int64_t>(blockIdx.x) * kListThreads + static_cast<int64_t>(threadIdx.x)) / 32;
  if (list >= shape.NumLists()) return;
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int32_t tile = static_cast<int32_t>(list % shape.num_tiles);
  const TilePositions rows = PositionsOfTile(shape, tile);
  const auto units = source.Open(shape, list / shape.num_tiles, tile, rows);
  ListWriter<Source::kUnitShift> writer(rows, arrays.runs + list * arrays.run_capacity,
                                        arrays.columns + list * arrays.column_capacity);
  const ListCounts counts = writer.Write(units);
  if (threadIdx.x % 32 == 0) StoreCounts(arrays, list, list, counts);
}

template <class Source>
cudaError_t LaunchWriteLists(const Source& source, const ListShape& shape, const ListArrays& arrays,
                             cudaStream_t stream) {
  return cuda::LaunchDependent(WriteListsKernel<Source>, BlocksOfWarps(shape.NumLists()), kListThreads, 0, stream,
                               source, shape, arrays);
}

}  // namespace headscope::kernels::selection
