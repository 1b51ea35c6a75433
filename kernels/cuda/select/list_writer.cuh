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

// Keys [begin, end) that are kept by the rows of one half or, with no half flag, by all rows: a full run up to the
// diagonal, a partial one across it. Returns how many runs that is (0 to 2). The diagonal's own first column goes with
// the full part only when nothing follows it.
__device__ inline int CutAtDiagonal(TilePositions rows, int32_t begin, int32_t end, uint32_t half, KeyRun (&runs)[2]) {
  const int32_t first = half == kRunLowerHalf ? rows.first + kHalfRows : rows.first;
  const int32_t last = half == kRunUpperHalf ? min(rows.first + kHalfRows - 1, rows.last) : rows.last;
  end = min(end, last + 1);
  if (begin >= end) return 0;
  if (end <= first + 1) {
    runs[0] = KeyRun::Make(begin, end - begin, half);
    return 1;
  }
  int count = 0;
  if (begin < first) runs[count++] = KeyRun::Make(begin, first - begin, half);
  const int32_t partial = max(begin, first);
  runs[count++] = KeyRun::Make(partial, end - partial, half | kRunPartial);
  return count;
}

struct ListCounts {
  int32_t runs = 0;
  int32_t columns = 0;
};

// Walks the units of one list, 64 per lane, and writes its runs and columns in order.
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
    const int32_t first_near_word = ((rows_.first + 1) >> kUnitShift) / 64;
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

  template <bool kNear>
  __device__ __forceinline__ void Step(int32_t word, KeptUnits units) {
    const int32_t first_unit = word * 64;
    uint64_t inside = ~uint64_t{0};
    if constexpr (kNear) inside = LowBits((rows_.last >> kUnitShift) + 1 - first_unit);
    units.upper &= inside;
    units.lower &= inside;
    if (!rows_.HasLower()) units.lower = units.upper;
    uint64_t singles = 0;
    if constexpr (kUnitShift == 0) {
      // A column that a run of one half covers becomes a run of both, since a single column may lie in no run; so does
      // one right of the first row's position, which needs the causal mask.
      units.columns &= inside;
      uint64_t promoted = units.columns & (units.upper ^ units.lower);
      if constexpr (kNear) promoted |= units.columns & ~LowBits(rows_.first + 1 - first_unit);
      units.upper |= promoted;
      units.lower |= promoted;
      singles = units.columns & ~(units.upper | units.lower);
    }

    // The state in front of each unit, and where it changes.
    const uint32_t state_after = static_cast<uint32_t>(units.upper >> 63) | static_cast<uint32_t>(units.lower >> 63)
                                                                                << 1;
    uint32_t before = __shfl_up_sync(kFullWarp, state_after, 1);
    if (lane_ == 0) before = state_;
    state_ = __shfl_sync(kFullWarp, state_after, 31);
    const uint64_t upper_before = units.upper << 1 | (before & 1);
    const uint64_t lower_before = units.lower << 1 | before >> 1;
    const uint64_t changes = (units.upper ^ upper_before) | (units.lower ^ lower_before);
    const uint32_t changing_lanes = __ballot_sync(kFullWarp, changes != 0);
    if (changing_lanes == 0 && !__any_sync(kFullWarp, singles != 0)) return;

    // The last change in front of this lane's units: where its first run began.
    const int32_t own_last_change = first_unit + 63 - __clzll(static_cast<long long>(changes));
    const uint32_t lanes_below = changing_lanes & ((1u << lane_) - 1);
    int32_t begin = __shfl_sync(kFullWarp, own_last_change, 31 - __clz(lanes_below | 1u));
    if (lanes_below == 0) begin = last_change_;
    if (changing_lanes != 0) last_change_ = __shfl_sync(kFullWarp, own_last_change, 31 - __clz(changing_lanes));

    // visit(begin, end, half) for every run that ends in this lane's units, before it is cut at the diagonal.
    auto for_each_run = [&](auto&& visit) {
      int32_t from = begin;
      for (uint64_t left = changes; left != 0; left &= left - 1) {
        const int bit = __ffsll(static_cast<long long>(left)) - 1;
        const bool upper = (upper_before >> bit & 1) != 0;
        const bool lower = (lower_before >> bit & 1) != 0;
        const int32_t to = first_unit + bit;
        const uint32_t half = upper && lower ? 0u : upper ? kRunUpperHalf : kRunLowerHalf;
        if (upper || lower) visit(from << kUnitShift, to << kUnitShift, half);
        from = to;
      }
    };
    int32_t num_runs = __popcll(changes & (upper_before | lower_before));
    if constexpr (kNear) {
      num_runs = 0;
      for_each_run([&](int32_t from, int32_t to, uint32_t half) {
        KeyRun cut[2];
        num_runs += CutAtDiagonal(rows_, from, to, half, cut);
      });
    }
    const int32_t num_singles = __popcll(singles);
    // Both prefix sums at once: at most 32 * 128 runs and 32 * 64 columns.
    uint32_t sums = static_cast<uint32_t>(num_runs) | static_cast<uint32_t>(num_singles) << 16;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const uint32_t below = __shfl_up_sync(kFullWarp, sums, offset);
      if (lane_ >= offset) sums += below;
    }
    KeyRun* next_run = runs_ + counts_.runs + static_cast<int32_t>(sums & 0xffff) - num_runs;
    for_each_run([&](int32_t from, int32_t to, uint32_t half) {
      if constexpr (kNear) {
        KeyRun cut[2];
        const int count = CutAtDiagonal(rows_, from, to, half, cut);
        if (count > 0) *next_run++ = cut[0];
        if (count > 1) *next_run++ = cut[1];
      } else {
        *next_run++ = KeyRun::Make(from, to - from, half);
      }
    });
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
  uint32_t state_ = 0;       // of the last unit so far: bit 0 upper, bit 1 lower
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
