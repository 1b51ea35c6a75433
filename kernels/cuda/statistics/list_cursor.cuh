// SPDX-License-Identifier: Apache-2.0
// A list of an index as one sequence of keys, handed out 64 at a time by a block of threads: the list's next 32 entries
// are measured together, and every key of a tile finds its entry in their running sums.
#pragma once

#include "kernels/sparse_index.h"
#include "statistics/score_tile.cuh"

namespace headscope::kernels::statistics {

// One key of a tile and those rows of the block that keep it: the element rule, the half flags, causality and the
// model's window all leave an interval of rows.
struct KeySlot {
  int32_t column;  // -1: none
  int16_t first_row, last_row;

  __device__ bool KeptBy(int row) const { return (row >= first_row) & (row < last_row); }
};

// The rows of a block, for cutting a key's interval out of them.
struct ListRows {
  ElementRule rule;
  int32_t tile_rows;
  int64_t position;  // of row 0
  int32_t window;    // the model's own; 0: none

  __device__ KeySlot Slot(int32_t column, uint32_t flags) const {
    int64_t first = column - position;
    int64_t last = tile_rows;
    if (window > 0) last = min(last, first + window);
    const bool windowed = (flags & kRunPartial) != 0 && rule.kind == MaskKind::kCausalWindow;
    if (windowed && column >= rule.num_sinks) last = min(last, first + rule.window);
    if ((flags & kRunUpperHalf) != 0) last = min(last, int64_t{tile_rows / 2});
    if ((flags & kRunLowerHalf) != 0) first = max(first, int64_t{tile_rows / 2});
    return {column, static_cast<int16_t>(max(min(first, int64_t{tile_rows}), int64_t{0})),
            static_cast<int16_t>(max(last, int64_t{0}))};
  }
};

// Shared memory of a cursor: entries (single columns as runs of one), the first without what has been handed out, and
// the number of keys up to each one's end.
struct ListWindow {
  static constexpr int kEntries = 32;
  int32_t starts[kEntries];
  uint32_t flags[kEntries];
  int32_t ends[kEntries];
};

class ListCursor {
 public:
  __device__ ListCursor(const SparseIndexView& index, int64_t list, const ListRows& rows)
      : rows_(rows),
        runs_(index.runs + index.run_begin[list]),
        columns_(index.columns + index.column_begin[list]),
        num_runs_(index.run_count[list]),
        num_entries_(num_runs_ + index.column_count[list]) {}

  // Keys of the whole list, for all threads. warp_keys: shared, one per warp.
  __device__ int64_t CountKeys(int64_t* warp_keys) const {
    int64_t keys = 0;
    for (int i = static_cast<int>(threadIdx.x); i < num_runs_; i += kThreads) keys += runs_[i].Length();
    for (int offset = 16; offset > 0; offset /= 2) keys += __shfl_xor_sync(~0u, keys, offset);
    if (threadIdx.x % 32 == 0) warp_keys[threadIdx.x / 32] = keys;
    __syncthreads();
    keys = num_entries_ - num_runs_;
    for (int warp = 0; warp < kWarps; ++warp) keys += warp_keys[warp];
    return keys;
  }

  // Called by all threads: `slots` gets the list's next 64 keys, and empty ones beyond its end. Threads must meet
  // before they read the slots.
  __device__ void Fill(KeySlot* slots, ListWindow* window) {
    const int thread = static_cast<int>(threadIdx.x);
    int filled = 0;
    while (filled < kTileKeys && entry_ < num_entries_) {
      __syncthreads();  // the window before this one has been read
      if (thread < ListWindow::kEntries) LoadEntry(window);
      __syncthreads();
      const int taken = min(window->ends[ListWindow::kEntries - 1], kTileKeys - filled);
      if (thread < taken) {
        const int entry = EntryOf(window->ends, thread);
        slots[filled + thread] =
            rows_.Slot(window->starts[entry] + thread - BeginOf(window->ends, entry), window->flags[entry]);
      }
      filled += taken;
      const int next = EntryOf(window->ends, taken);  // the entry of the next key
      offset_ = (next == 0 ? offset_ : 0) + taken - BeginOf(window->ends, next);
      entry_ += next;
    }
    if (thread >= filled && thread < kTileKeys) slots[thread] = {-1, 0, 0};
  }

 private:
  __device__ void LoadEntry(ListWindow* window) const {
    const int lane = static_cast<int>(threadIdx.x);
    const int i = entry_ + lane;
    KeyRun run{};
    if (i < num_runs_) {
      run = runs_[i];
    } else if (i < num_entries_) {
      run = KeyRun::Make(columns_[i - num_runs_], 1, 0);
    }
    if (lane == 0) run = KeyRun::Make(run.start + offset_, run.Length() - offset_, run.Flags());
    // A tile never takes more than 64 keys, so an entry cut to 65 is never used up by one, and no sum overflows.
    int32_t end = min(run.Length(), kTileKeys + 1);
    for (int step = 1; step < ListWindow::kEntries; step *= 2) {
      const int32_t before = __shfl_up_sync(~0u, end, step);
      if (lane >= step) end += before;
    }
    window->starts[lane] = run.start;
    window->flags[lane] = run.Flags();
    window->ends[lane] = end;
  }

  // The first entry whose end lies beyond `key`; kEntries when none does.
  static __device__ int EntryOf(const int32_t* ends, int key) {
    int low = 0;
    for (int step = ListWindow::kEntries / 2; step > 0; step /= 2) {
      if (ends[low + step - 1] <= key) low += step;
    }
    return low + (ends[low] <= key ? 1 : 0);
  }
  static __device__ int BeginOf(const int32_t* ends, int entry) { return entry > 0 ? ends[entry - 1] : 0; }

  ListRows rows_;
  const KeyRun* runs_;
  const int32_t* columns_;
  int num_runs_, num_entries_;
  int entry_ = 0;   // the next key's entry
  int offset_ = 0;  // keys of it that have been handed out
};

}  // namespace headscope::kernels::statistics
