// DecodeCpu: the query heads of a KV head are the rows of one tile, so every selected key is read once per group; long
// token lists are cut into slices, which run on all threads and are merged by their log-sum-exps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "highway_targets.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_executor.h"
#include "methods/checks.h"
#include "problem_view.h"
#include "tile_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "tile_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

// `num_heads` query heads from `head` on, all of one KV head, over tokens[0 .. count): o [num_heads, head_dim] and lse
// [num_heads].
void DecodeSlice(const AttentionProblem& problem, int32_t sequence, int32_t head, int32_t num_heads,
                 const int32_t* tokens, int64_t count, float* o, float* lse, TileScratch& scratch) {
  const int32_t kv_head = head / problem.GroupSize();
  RowsView q = RowsOf(problem.q, sequence, head);
  q.row_stride = problem.q.head_stride;  // one row per head
  TileAttention attention(problem, q, RowsOf(problem.k, sequence, kv_head), RowsOf(problem.v, sequence, kv_head),
                          num_heads, problem.first_position, scratch);
  const TileRows rows{0, num_heads};
  for (int64_t i = 0; i < count;) {
    int64_t end = i + 1;
    while (end < count && tokens[end] == tokens[end - 1] + 1) ++end;
    attention.AddRange(rows, tokens[i], tokens[end - 1] + 1);
    i = end;
  }
  attention.Flush(rows);
  attention.Store(o, problem.head_dim, lse);
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::kernels {

HWY_EXPORT(DecodeSlice);

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Fixed, so that results do not depend on the number of threads; 2048 keys of 128 dimensions are 2 MiB, some 0.2 ms of
// one core.
constexpr int64_t kSliceTokens = 2048;

// One task: some query heads of one KV head over one slice of its tokens.
struct Slice {
  int32_t sequence;
  int32_t head;  // first query head
  int32_t num_heads;
  int64_t token_begin;
  int64_t token_end;
  int64_t first_row;  // in the partial results
};

std::vector<Slice> CutIntoSlices(const AttentionProblem& problem, const DecodeSelection& selection) {
  std::vector<Slice> slices;
  int64_t rows = 0;
  for (int32_t list = 0; list < problem.batch * problem.num_kv_heads; ++list) {
    const int32_t first_head = list % problem.num_kv_heads * problem.GroupSize();
    for (int32_t head = 0; head < problem.GroupSize(); head += kMaxTileRows) {
      int64_t begin = selection.token_begin[static_cast<size_t>(list)];
      const int64_t end = selection.token_begin[static_cast<size_t>(list) + 1];
      // An empty list is one empty slice: its heads' outputs must be written too.
      do {
        const int32_t num_heads = std::min(kMaxTileRows, problem.GroupSize() - head);
        const int64_t slice_end = std::min(begin + kSliceTokens, end);
        slices.push_back({list / problem.num_kv_heads, first_head + head, num_heads, begin, slice_end, rows});
        rows += num_heads;
        begin = slice_end;
      } while (begin < end);
    }
  }
  return slices;
}

// A running combination of softmax results over disjoint key sets.
struct Merged {
  std::vector<double> o;
  double maximum = kMinusInfinity;
  double sum = 0;

  void Add(const float* slice_o, float slice_lse) {
    if (slice_lse == kMinusInfinity) return;  // no key in the slice
    const double shift = std::max(maximum, static_cast<double>(slice_lse));
    const double decay = std::exp(maximum - shift);
    const double weight = std::exp(static_cast<double>(slice_lse) - shift);
    for (size_t d = 0; d < o.size(); ++d) o[d] = o[d] * decay + static_cast<double>(slice_o[d]) * weight;
    sum = sum * decay + weight;
    maximum = shift;
  }
};

// Writes one query head: the slices' results together, then the mean-value term.
void WriteHead(const AttentionProblem& problem, const DecodeSelection& selection, int32_t sequence, int32_t head,
               const Merged& merged, const AttentionOutput& output) {
  const size_t row =
      static_cast<size_t>(sequence) * static_cast<size_t>(problem.num_qo_heads) + static_cast<size_t>(head);
  const double alpha = selection.alpha.empty() ? 1.0 : static_cast<double>(selection.alpha[row]);
  const size_t list = static_cast<size_t>(sequence) * static_cast<size_t>(problem.num_kv_heads) +
                      static_cast<size_t>(head / problem.GroupSize());
  const float* const mean = selection.mean_value.empty()
                                ? nullptr
                                : selection.mean_value.data() + list * static_cast<size_t>(problem.head_dim);
  float* const o = static_cast<float*>(output.o.data) + sequence * output.o.batch_stride + head * output.o.head_stride;
  for (size_t d = 0; d < merged.o.size(); ++d) {
    const double attended = merged.sum == 0.0 ? 0.0 : merged.o[d] / merged.sum;
    o[d] = static_cast<float>(mean == nullptr ? attended
                                              : alpha * attended + (1.0 - alpha) * static_cast<double>(mean[d]));
  }
  if (output.lse != nullptr) {
    output.lse[row] = merged.sum == 0.0 ? kMinusInfinity : static_cast<float>(merged.maximum + std::log(merged.sum));
  }
}

}  // namespace

Status DecodeCpu(const AttentionProblem& problem, const DecodeSelection& selection, const AttentionOutput& output,
                 const RunOptions& options) {
  Status status = internal::CheckSelectionOfProblem(problem, selection);
  if (status.ok()) status = internal::CheckOutput(problem, output);
  if (status.ok()) status = CheckCpuLimits(problem);
  if (!status.ok()) return status;
  const int64_t head_dim = problem.head_dim;
  try {
    const std::vector<Slice> slices = CutIntoSlices(problem, selection);
    const auto num_slices = static_cast<int64_t>(slices.size());
    const int64_t num_rows = slices.back().first_row + slices.back().num_heads;
    std::vector<float> partial_o(static_cast<size_t>(num_rows * head_dim));
    std::vector<float> partial_lse(static_cast<size_t>(num_rows));
    std::vector<std::unique_ptr<TileScratch>> scratch(static_cast<size_t>(internal::NumWorkers(options, num_slices)));
    status = internal::ParallelFor(num_slices, 1, options, [&](int64_t begin, int64_t end, int32_t worker) {
      std::unique_ptr<TileScratch>& mine = scratch[static_cast<size_t>(worker)];
      if (mine == nullptr) mine = std::make_unique<TileScratch>(problem.head_dim);
      for (int64_t i = begin; i < end; ++i) {
        const Slice& slice = slices[static_cast<size_t>(i)];
        HWY_DYNAMIC_DISPATCH(DecodeSlice)
        (problem, slice.sequence, slice.head, slice.num_heads, selection.tokens.data() + slice.token_begin,
         slice.token_end - slice.token_begin, partial_o.data() + slice.first_row * head_dim,
         partial_lse.data() + slice.first_row, *mine);
      }
    });
    if (!status.ok()) return status;

    for (size_t i = 0; i < slices.size();) {
      const Slice& first = slices[i];
      size_t end = i + 1;
      while (end < slices.size() && slices[end].sequence == first.sequence && slices[end].head == first.head) ++end;
      for (int32_t head = 0; head < first.num_heads; ++head) {
        Merged merged;
        merged.o.assign(static_cast<size_t>(head_dim), 0.0);
        for (size_t slice = i; slice < end; ++slice) {
          const int64_t row = slices[slice].first_row + head;
          merged.Add(partial_o.data() + row * head_dim, partial_lse[static_cast<size_t>(row)]);
        }
        WriteHead(problem, selection, first.sequence, first.head + head, merged, output);
      }
      i = end;
    }
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory,
            "not enough memory for the partial results of " + std::to_string(selection.tokens.size()) + " tokens"};
  }
  return {};
}

}  // namespace headscope::kernels
#endif  // HWY_ONCE
