// The warp that writes one list. See lists.h.
#pragma once

#include <cuda_runtime.h>

#include "select/lists.h"

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

// Walks the units of one list, 64 per lane, and writes its runs and columns in order.
//
// A run ends where the state of the units changes: whether the upper and whether the lower rows keep them, and whether
// the diagonal may cut them. Three choices keep runs few and long, since each begins a new box of keys in the executor:
// - Right of the upper rows' last position only the lower rows count, and what they keep is a run of both, which the
//   causal mask takes from the upper rows.
// - A column inside a run of one half is cut out of it and stays a single column: a run of its own would take the place
//   of 32 keys.
// - The diagonal cuts a run once, at the start of the unit in which it begins.
template <int kUnitShift>
class ListWriter {
 public:
  __device__ ListWriter(TilePositions rows, KeyRun* runs, int32_t* columns)
      : rows_(rows), lane_(static_cast<int>(threadIdx.x) % 32), runs_(runs), columns_(columns) {}

  // load(word) gives units [64 word, 64 word + 64). All lanes call it.
  template <class Load>
  __device__ ListCounts Write(Load&& load) {
    const int32_t last_unit = rows_.last >> kUnitShift;
    // One unit behind the last, so that a run which reaches the end is closed.
    const int32_t num_words = (last_unit + 1) / 64 + 1;
    // Words in front of this one hold nothing that the diagonal cuts or masks.
    const int32_t first_near_word = (rows_.first >> kUnitShift) / 64;
    int32_t word = 0;
    for (; word + 32 <= first_near_word; word += 32) Step</*kNear=*/false>(word + lane_, load(word + lane_));
    for (; word < num_words; word += 32) {
      KeptUnits units;
      if (word + lane_ < num_words) units = load(word + lane_);
      Step</*kNear=*/true>(word + lane_, units);
    }
    return counts_;
  }

 private:
  static constexpr unsigned kFullWarp = 0xffffffffu;

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
    const int32_t first_unit = word * 64;
    uint64_t cut = 0;
    if constexpr (kNear) cut = ClipAtDiagonal(first_unit, units);
    uint64_t singles = 0;
    if constexpr (kUnitShift == 0) {
      singles = units.columns & ~(units.upper & units.lower);
      units.upper &= ~singles;
      units.lower &= ~singles;
    }

    // The state in front of each unit, and where it changes.
    auto top_bit = [](uint64_t bits) { return static_cast<uint32_t>(bits >> 63); };
    const uint32_t state_after = top_bit(units.upper) | top_bit(units.lower) << 1 | top_bit(cut) << 2;
    uint32_t before = __shfl_up_sync(kFullWarp, state_after, 1);
    if (lane_ == 0) before = state_;
    state_ = __shfl_sync(kFullWarp, state_after, 31);
    const uint64_t upper_before = units.upper << 1 | (before & 1);
    const uint64_t lower_before = units.lower << 1 | (before >> 1 & 1);
    uint64_t changes = (units.upper ^ upper_before) | (units.lower ^ lower_before);
    uint64_t cut_before = 0;
    if constexpr (kNear) {
      cut_before = cut << 1 | before >> 2;
      changes |= cut ^ cut_before;
    }
    const uint32_t changing_lanes = __ballot_sync(kFullWarp, changes != 0);
    if (changing_lanes == 0 && !__any_sync(kFullWarp, singles != 0)) return;

    // The last change in front of this lane's units: where its first run began.
    const int32_t own_last_change = first_unit + 63 - __clzll(static_cast<long long>(changes));
    const uint32_t lanes_below = changing_lanes & ((1u << lane_) - 1);
    int32_t from = __shfl_sync(kFullWarp, own_last_change, 31 - __clz(lanes_below | 1u));
    if (lanes_below == 0) from = last_change_;
    if (changing_lanes != 0) last_change_ = __shfl_sync(kFullWarp, own_last_change, 31 - __clz(changing_lanes));

    const int32_t num_runs = __popcll(changes & (upper_before | lower_before));
    const int32_t num_singles = __popcll(singles);
    // Both prefix sums at once: at most 32 * 64 each.
    uint32_t sums = static_cast<uint32_t>(num_runs) | static_cast<uint32_t>(num_singles) << 16;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const uint32_t below = __shfl_up_sync(kFullWarp, sums, offset);
      if (lane_ >= offset) sums += below;
    }
    KeyRun* next_run = runs_ + counts_.runs + static_cast<int32_t>(sums & 0xffff) - num_runs;
    for (uint64_t left = changes; left != 0; left &= left - 1) {
      const uint64_t bit = left & (0 - left);
      const int32_t to = first_unit + __ffsll(static_cast<long long>(left)) - 1;
      const bool upper = (upper_before & bit) != 0;
      const bool lower = (lower_before & bit) != 0;
      if (upper || lower) {
        uint32_t flags = upper && lower ? 0u : upper ? kRunUpperHalf : kRunLowerHalf;
        const int32_t begin = from << kUnitShift;
        int32_t end = to << kUnitShift;
        if constexpr (kNear) {
          if ((cut_before & bit) != 0) flags |= kRunPartial;
          end = min(end, rows_.last + 1);
        }
        *next_run++ = KeyRun::Make(begin, end - begin, flags);
      }
      from = to;
    }
    if constexpr (kUnitShift == 0) {
      int32_t* next_column = columns_ + counts_.columns + static_cast<int32_t>(sums >> 16) - num_singles;
      for (uint64_t left = singles; left != 0; left &= left - 1) {
        *next_column++ = first_unit + __ffsll(static_cast<long long>(left)) - 1;
      }
    }
    const uint32_t totals = __shfl_sync(kFullWarp, sums, 31);
    counts_.runs += static_cast<int32_t>(totals & 0xffff);
    counts_.columns += static_cast<int32_t>(totals >> 16);
  }

  const TilePositions rows_;
  const int lane_;
  KeyRun* const runs_;
  int32_t* const columns_;
  ListCounts counts_;
  uint32_t state_ = 0;       // of the last unit so far: bit 0 upper, bit 1 lower, bit 2 cut
  int32_t last_change_ = 0;  // unit at which that state began
};

__device__ inline void StoreCounts(const ListArrays& arrays, int64_t list, int64_t slot, ListCounts counts) {
  arrays.run_begin[list] = slot * arrays.run_capacity;
  arrays.run_count[list] = counts.runs;
  arrays.column_begin[list] = slot * arrays.column_capacity;
  arrays.column_count[list] = counts.columns;
}

// A warp per list. Source: static constexpr int kUnitShift; Open(shape, list, tile, rows) gives what load(word) needs.
template <class Source>
__global__ void __launch_bounds__(kListThreads)
    WriteListsKernel(const Source source, const ListShape shape, const ListArrays arrays) {
  const int64_t list = (static_cast<int64_t>(blockIdx.x) * kListThreads + static_cast<int64_t>(threadIdx.x)) / 32;
  if (list >= int64_t{shape.batch} * shape.num_qo_heads * shape.num_tiles) return;
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
  const int64_t num_lists = int64_t{shape.batch} * shape.num_qo_heads * shape.num_tiles;
  const int64_t lists_per_block = kListThreads / 32;
  WriteListsKernel<<<static_cast<unsigned>((num_lists + lists_per_block - 1) / lists_per_block), kListThreads, 0,
                     stream>>>(source, shape, arrays);
  return cudaGetLastError();
}

// 64 bits of a padded line bitmap from any bit on; line -192 is the first that may be asked for.
__device__ inline uint64_t FunnelShift(uint64_t low, uint64_t high, int shift) {
  return shift == 0 ? low : low >> shift | high << (64 - shift);
}

}  // namespace headscope::kernels::selection
