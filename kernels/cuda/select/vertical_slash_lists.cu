// SPDX-License-Identifier: Apache-2.0
// Vertical-slash's lists.
//
// Left of a tile's rows nothing is masked, and what the windows keep there differs from tile to tile only by a shift.
// So it is taken from the head's own sorted picks: its changes of state, 32 at a time, and its columns, 32 at a time.
// Work goes with the picks, where a walk over bitmaps goes with the keys. The words of the rows themselves are walked.
#include "dependent_launch.cuh"
#include "select/funnel_shift.cuh"
#include "select/list_writer.cuh"
#include "select/top_lines.h"

namespace headscope::kernels::selection {
namespace {

// A head's picks as a tile sees them. `windows`, `changes_before`: from the place of key 0.
struct TileLines {
  const uint64_t* column_bits;
  const uint64_t* windows;  // of the upper half; the lower half's are one word behind
  const int32_t* columns;
  const int32_t* columns_before;
  const StateChange* changes;
  const int32_t* changes_before;
  int32_t shift;  // of a change's unit against its key

  __device__ TileLines(const LineLists& lists, int64_t head, TilePositions rows)
      : column_bits(lists.bitmaps + head * 2 * lists.words + kBitmapFront),
        columns(lists.columns + head * lists.column_capacity),
        columns_before(lists.columns_before + head * (lists.column_words + 1)),
        changes(reinterpret_cast<const StateChange*>(lists.changes) + head * lists.change_capacity),
        shift(lists.top_position - rows.first) {
    windows = lists.windows + head * WindowWords(lists.top_position) + shift / 64;
    changes_before = lists.changes_before + head * (lists.change_words + 1) + shift / 64;
  }

  __device__ KeptUnits operator()(int32_t word) const { return {windows[word], windows[word - 1], column_bits[word]}; }

  __device__ bool InBothHalves(int32_t key) const {
    return (windows[key / 64] & windows[key / 64 - 1]) >> (key % 64) & 1;
  }
  // Bit i: column key + i is kept.
  __device__ uint64_t ColumnsFrom(int32_t key) const {
    return FunnelShift(column_bits[key / 64], column_bits[key / 64 + 1], key % 64);
  }
};

template <ListPart kPart>
class LineListWriter : public ListWriter<0, kPart> {
  using Base = ListWriter<0, kPart>;
  using Base::columns_;
  using Base::counts_;
  using Base::kFullWarp;
  using Base::lane_;
  using Base::rows_;
  using Base::runs_;

 public:
  using Base::Base;

  __device__ ListCounts Write(const TileLines& lines) {
    const int32_t near_word = rows_.first / 64;
    if (near_word > 0) {
      if constexpr (kPart != ListPart::kRuns) WriteColumns(lines, near_word);
      if constexpr (kPart != ListPart::kColumns) WriteRunsOfWindows(lines, near_word);
    }
    return Base::Write(lines, near_word);
  }

 private:
  // Columns that a run of both halves does not hold.
  __device__ void WriteColumns(const TileLines& lines, int32_t near_word) {
    constexpr int kAtOnce = 4;  // loads of a lane that are on their way together
    const int32_t num_columns = lines.columns_before[near_word];
    for (int32_t first = 0; first < num_columns; first += 32 * kAtOnce) {
      int32_t column[kAtOnce];
      bool single[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int32_t at = first + 32 * i + lane_;
        column[i] = at < num_columns ? lines.columns[at] : -1;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) single[i] = column[i] >= 0 && !lines.InBothHalves(column[i]);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const uint32_t votes = __ballot_sync(kFullWarp, single[i]);
        if (single[i]) columns_[counts_.columns + __popc(votes & ((1u << lane_) - 1))] = column[i];
        counts_.columns += __popc(votes);
      }
    }
  }

  // What the windows keep, without the columns inside a run of one half: a lane has what lies between two changes.
  __device__ void WriteRunsOfWindows(const TileLines& lines, int32_t near_word) {
    const int32_t end_key = 64 * near_word;
    const int32_t end = lines.changes_before[near_word];
    // Behind the last change lies what is not written here.
    const StateChange behind = StateChange::Make(lines.shift + end_key, 0);
    auto change_at = [&](int32_t at) { return at < end ? lines.changes[at] : behind; };
    // The one in front of key 0 holds until the next.
    const int32_t begin = lines.changes_before[0] - 1;
    StateChange open{};
    StateChange from = change_at(begin + lane_);
    for (int32_t first = begin; first < end; first += 32) {
      const StateChange ahead = change_at(first + 32 + lane_);
      StateChange next{__shfl_down_sync(kFullWarp, from.packed, 1)};
      const uint32_t first_ahead = __shfl_sync(kFullWarp, ahead.packed, 0);
      if (lane_ == 31) next.packed = first_ahead;
      const int32_t key = max(from.Unit() - lines.shift, 0);
      const int32_t length = next.Unit() - lines.shift - key;
      const uint32_t state = length > 0 ? from.State() : 0;
      from = ahead;
      bool whole = state == 3;
      uint64_t kept = 0;  // in a run of one half, of the keys from `key` on
      uint64_t starts = 0;
      if (state == 1 || state == 2) {
        // At most 64 keys: it ends where the other half's run begins or has ended.
        kept = LowBits(length) & ~lines.ColumnsFrom(key);
        starts = kept & ~(kept << 1);
      }
      if (first + lane_ == end - 1) {
        // Whether what lies at the end goes on is for the walk to see.
        open = StateChange::Make(key, state);
        whole = false;
        if (state == 1 || state == 2) {
          const int top = 63 - __clzll(static_cast<long long>(starts));
          const bool goes_on = (kept >> (length - 1) & 1) != 0;
          open = goes_on ? StateChange::Make(key + top, state) : StateChange::Make(end_key, 0);
          if (goes_on) starts ^= uint64_t{1} << top;
        }
      }
      int32_t next_run = NumberOfFirst((whole ? 1 : 0) + __popcll(starts));
      if (whole) runs_[next_run] = KeyRun::Make(key, length, 0);
      for (; starts != 0; starts &= starts - 1) {
        const int at = __ffsll(static_cast<long long>(starts)) - 1;
        const uint64_t behind_run = ~(kept >> at);
        const int run = behind_run == 0 ? 64 : __ffsll(static_cast<long long>(behind_run)) - 1;
        runs_[next_run++] = KeyRun::Make(key + at, run, state == 1 ? kRunUpperHalf : kRunLowerHalf);
      }
    }
    Base::GoOn(StateChange{__shfl_sync(kFullWarp, open.packed, (end - 1 - begin) % 32)});
  }

  // Counts the lanes' runs; returns where the lane's first one goes.
  __device__ int32_t NumberOfFirst(int32_t count) {
    const int32_t first = counts_.runs;
    if (!__any_sync(kFullWarp, count > 1)) {
      const uint32_t votes = __ballot_sync(kFullWarp, count != 0);
      counts_.runs += __popc(votes);
      return first + __popc(votes & ((1u << lane_) - 1));
    }
    int32_t sum = count;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int32_t below = __shfl_up_sync(kFullWarp, sum, offset);
      if (lane_ >= offset) sum += below;
    }
    counts_.runs += __shfl_sync(kFullWarp, sum, 31);
    return first + sum - count;
  }
};

// kWarps per list: one, or two, of which one writes the runs and the other the columns.
template <int kWarps>
__global__ void __launch_bounds__(kListThreads)
    WriteLineListsKernel(const LineLists lists, const ListShape shape, const ListArrays arrays) {
  const int64_t warp = (static_cast<int64_t>(blockIdx.x) * kListThreads + static_cast<int64_t>(threadIdx.x)) / 32;
  const int64_t list = warp / kWarps;
  if (list >= shape.NumLists()) return;
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const TilePositions rows = PositionsOfTile(shape, static_cast<int32_t>(list % shape.num_tiles));
  const TileLines lines(lists, list / shape.num_tiles, rows);
  KeyRun* const runs = arrays.runs + list * arrays.run_capacity;
  int32_t* const columns = arrays.columns + list * arrays.column_capacity;
  const bool stores = threadIdx.x % 32 == 0;
  if constexpr (kWarps == 1) {
    const ListCounts counts = LineListWriter<ListPart::kAll>(rows, runs, columns).Write(lines);
    if (stores) StoreCounts(arrays, list, list, counts);
  } else if (warp % 2 == 0) {
    const ListCounts counts = LineListWriter<ListPart::kRuns>(rows, runs, columns).Write(lines);
    if (stores) StoreRunCount(arrays, list, list, counts);
  } else {
    const ListCounts counts = LineListWriter<ListPart::kColumns>(rows, runs, columns).Write(lines);
    if (stores) StoreColumnCount(arrays, list, list, counts);
  }
}

// Up to here a second warp per list finds room on a large GPU and shortens the call; beyond, what both do twice costs.
constexpr int64_t kFewLists = 4096;

}  // namespace

cudaError_t LaunchLineLists(const LineLists& lists, const ListShape& shape, const ListArrays& arrays,
                            cudaStream_t stream) {
  const bool few = shape.NumLists() <= kFewLists;
  return cuda::LaunchDependent(few ? WriteLineListsKernel<2> : WriteLineListsKernel<1>,
                               BlocksOfWarps(shape.NumLists() * (few ? 2 : 1)), kListThreads, 0, stream, lists, shape,
                               arrays);
}

}  // namespace headscope::kernels::selection
