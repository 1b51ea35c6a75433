// SPDX-License-Identifier: Apache-2.0
// Lists of methods whose kept set is the element rule itself: dense and A-shape.
#include "select/list_writer.cuh"

namespace headscope::kernels::selection {
namespace {

constexpr int kRuleThreads = 128;

__device__ void Sort(int64_t (&values)[5]) {
#pragma unroll
  for (int end = 4; end > 0; --end) {
#pragma unroll
    for (int i = 0; i < end; ++i) {
      const int64_t low = min(values[i], values[i + 1]);
      values[i + 1] = max(values[i], values[i + 1]);
      values[i] = low;
    }
  }
}

// All columns, cut where the rule's answer changes: between two cuts a column is kept by all rows, by some or by none.
// The diagonal's own column rows.first goes with the partial part.
__device__ int RunsOfRule(const ElementRule& rule, TilePositions rows, int32_t seq_k, KeyRun (&runs)[kMostRuleRuns]) {
  int count = 0;
  auto push = [&](int64_t begin, int64_t end, uint32_t flags) {
    if (count > 0 && runs[count - 1].Flags() == flags && runs[count - 1].End() == begin) {
      begin = runs[--count].start;
    }
    runs[count++] = KeyRun::Make(static_cast<int32_t>(begin), static_cast<int32_t>(end - begin), flags);
  };
  if (rule.kind == MaskKind::kCausal && seq_k <= rows.first + 1) {
    push(0, seq_k, 0);
    return count;
  }
  auto all_keep = [&](int64_t column) { return rule.Keeps(rows.first, column) && rule.Keeps(rows.last, column); };
  const int64_t window = rule.kind == MaskKind::kCausalWindow ? rule.window : int64_t{rows.last} + 1;
  const int64_t num_sinks = rule.kind == MaskKind::kCausalWindow ? rule.num_sinks : 0;
  int64_t cuts[5] = {num_sinks, rows.first - window + 1, rows.last - window + 1, rows.first, int64_t{rows.last} + 1};
  Sort(cuts);
  int64_t begin = 0;
  for (int cut = 0; cut <= 5; ++cut) {
    const int64_t end = cut < 5 ? min(cuts[cut], int64_t{seq_k}) : seq_k;
    if (end <= begin) continue;
    if (all_keep(begin) && all_keep(end - 1)) {
      push(begin, end, 0);
    } else if (begin <= rows.last && (begin < num_sinks || end - 1 > rows.first - window)) {
      push(begin, end, kRunPartial);
    }
    begin = end;
  }
  return count;
}

// A thread per list; the tile's slot is written by that of the first head of the first sequence.
__global__ void __launch_bounds__(kRuleThreads)
    WriteRuleListsKernel(const ElementRule rule, const ListShape shape, const ListArrays arrays) {
  const int64_t list = static_cast<int64_t>(blockIdx.x) * kRuleThreads + static_cast<int64_t>(threadIdx.x);
  if (list >= shape.NumLists()) return;
  const int32_t tile = static_cast<int32_t>(list % shape.num_tiles);
  KeyRun runs[kMostRuleRuns];
  const int count = RunsOfRule(rule, PositionsOfTile(shape, tile), shape.seq_k, runs);
  StoreCounts(arrays, list, tile, {count, 0});
  if (list >= shape.num_tiles) return;
  for (int i = 0; i < count; ++i) arrays.runs[int64_t{tile} * arrays.run_capacity + i] = runs[i];
}

}  // namespace

cudaError_t LaunchRuleLists(const ElementRule& rule, const ListShape& shape, const ListArrays& arrays,
                            cudaStream_t stream) {
  const int64_t num_lists = shape.NumLists();
  WriteRuleListsKernel<<<static_cast<unsigned>((num_lists + kRuleThreads - 1) / kRuleThreads), kRuleThreads, 0,
                         stream>>>(rule, shape, arrays);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::selection
