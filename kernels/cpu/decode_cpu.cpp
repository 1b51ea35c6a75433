// SPDX-License-Identifier: Apache-2.0
// DecodeCpu: the query heads of a KV head pass over its selected keys together, so that every key is read once per
// group; lists are cut into slices, which run on all threads and are merged by their log-sum-exps.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "decode_slice.h"
#include "executor_checks.h"
#include "highway_targets.h"
#include "internal/parallel_for.h"
#include "internal/waiting_threads.h"
#include "kernels/cpu_executor.h"
#include "problem_view.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode_cpu.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "slice_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

template <class T>
void AttendSliceOf(const AttentionProblem& problem, const DecodeSlice& slice, const SliceOutput& output,
                   SliceScratch& scratch) {
  SliceAttention<T> attention(problem, slice, scratch);
  attention.Run();
  attention.Store(output);
}

void AttendSlice(const AttentionProblem& problem, const DecodeSlice& slice, const SliceOutput& output,
                 SliceScratch& scratch) {
  switch (problem.dtype) {
    case DType::kFloat32:
      return AttendSliceOf<float>(problem, slice, output, scratch);
    case DType::kBFloat16:
      return AttendSliceOf<hwy::bfloat16_t>(problem, slice, output, scratch);
    case DType::kFloat16:
      return AttendSliceOf<hwy::float16_t>(problem, slice, output, scratch);
  }
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::kernels {

HWY_EXPORT(AttendSlice);

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Slice {
  DecodeSlice work;
  bool by_components;    // its keys have lost some
  int64_t first_row;     // in the partial results
  const int32_t* pages;  // of the list
  int64_t begin;         // the slice's first token's number in the list
};

std::vector<Slice> CutIntoSlices(const AttentionProblem& problem, const DecodeSelection& selection) {
  std::vector<Slice> slices;
  int64_t rows = 0;
  const int64_t page_size = selection.page_size;
  const int64_t weight_row = static_cast<int64_t>(selection.pages.size()) * page_size;
  const int64_t weight_stride = selection.weight_rows == 1 ? 0 : weight_row;
  for (int32_t list = 0; list < problem.batch * problem.num_kv_heads; ++list) {
    const int32_t first_head = list % problem.num_kv_heads * problem.GroupSize();
    const int64_t first_page = selection.page_begin[static_cast<size_t>(list)];
    const int64_t count = NumTokens(selection, list, problem.seq_k);
    const int64_t with_components =
        selection.components_end > 0 ? NumTokensBelow(selection, list, selection.components_end) : 0;
    for (int32_t head = 0; head < problem.GroupSize(); head += kMaxSliceRows) {
      int64_t begin = 0;
      // An empty list is one empty slice: its heads' outputs must be written too.
      do {
        const int32_t num_heads = std::min(kMaxSliceRows, problem.GroupSize() - head);
        const bool by_components = begin < with_components;
        const int64_t slice_end = std::min(begin + kSliceTokens, by_components ? with_components : count);
        const float* const weights = selection.weights.empty() ? nullptr
                                                               : selection.weights.data() + head * weight_stride +
                                                                     first_page * page_size + begin;
        slices.push_back({{.sequence = list / problem.num_kv_heads,
                           .head = first_head + head,
                           .num_heads = num_heads,
                           .tokens = page_size == 1 ? selection.pages.data() + first_page + begin : nullptr,
                           .count = slice_end - begin,
                           .weights = weights,
                           .weight_stride = weight_stride},
                          by_components,
                          rows,
                          selection.pages.data() + first_page,
                          begin});
        rows += num_heads;
        begin = slice_end;
      } while (begin < count);
    }
  }
  return slices;
}

// The slice's tokens, where it has pages.
DecodeSlice WithTokens(const Slice& slice, int64_t page_size, SliceScratch& scratch) {
  DecodeSlice work = slice.work;
  if (page_size == 1) return work;
  for (int64_t i = 0; i < work.count;) {
    const int64_t number = slice.begin + i, page = number / page_size;
    const int64_t token = slice.pages[page] * page_size + number % page_size;
    const int64_t run = std::min(work.count - i, (page + 1) * page_size - number);
    for (int64_t t = 0; t < run; ++t) scratch.tokens[i + t] = static_cast<int32_t>(token + t);
    i += run;
  }
  work.tokens = scratch.tokens;
  return work;
}

// The step's queries with zeros where the keys of their list have lost a component: the product with a whole key is
// then that with what is left of it.
class CutQueries {
 public:
  CutQueries(const AttentionProblem& problem, const DecodeSelection& selection) : problem_(problem) {
    if (selection.components_end == 0) return;
    const int64_t size = SizeOf(problem.dtype), row_bytes = problem.head_dim * size;
    rows_.assign(static_cast<size_t>(int64_t{problem.batch} * problem.num_qo_heads * row_bytes), std::byte{0});
    for (int64_t row = 0; row < int64_t{problem.batch} * problem.num_qo_heads; ++row) {
      const int64_t sequence = row / problem.num_qo_heads, head = row % problem.num_qo_heads;
      const auto list = static_cast<size_t>(sequence * problem.num_kv_heads + head / problem.GroupSize());
      const std::byte* const from = static_cast<const std::byte*>(problem.q.data) +
                                    (sequence * problem.q.batch_stride + head * problem.q.head_stride) * size;
      for (int64_t i = selection.component_begin[list]; i < selection.component_begin[list + 1]; ++i) {
        const int64_t at = selection.components[static_cast<size_t>(i)] * size;
        std::memcpy(rows_.data() + row * row_bytes + at, from + at, static_cast<size_t>(size));
      }
    }
    problem_.q = {rows_.data(), int64_t{problem.num_qo_heads} * problem.head_dim, problem.head_dim, problem.head_dim};
  }
  CutQueries(const CutQueries&) = delete;
  CutQueries& operator=(const CutQueries&) = delete;

  const AttentionProblem& problem() const { return problem_; }

 private:
  AttentionProblem problem_;
  std::vector<std::byte> rows_;  // [batch, num_qo_heads, head_dim]
};

// A running combination of softmax results over disjoint key sets.
struct Merged {
  std::vector<double> o;
  double maximum = kMinusInfinity;
  double sum = 0;
  float largest = kMinusInfinity;  // score, without the sink

  // A key without a value.
  void AddSink(float logit) {
    const double shift = std::max(maximum, static_cast<double>(logit));
    const double decay = std::exp(maximum - shift);
    for (double& element : o) element *= decay;
    sum = sum * decay + std::exp(static_cast<double>(logit) - shift);
    maximum = shift;
  }

  void Add(const SliceOutput& slice) {
    const auto lse = static_cast<double>(*slice.lse);
    if (*slice.lse == kMinusInfinity) return;  // no key in the slice
    const double shift = std::max(maximum, lse);
    const double decay = std::exp(maximum - shift);
    const double weight = std::exp(lse - shift);
    largest = std::max(largest, *slice.row_max);
    for (size_t d = 0; d < o.size(); ++d) o[d] = o[d] * decay + static_cast<double>(slice.o[d]) * weight;
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
                                : selection.mean_value.data() + list * static_cast<size_t>(problem.ValueDim());
  float* const o = static_cast<float*>(output.o.data) + sequence * output.o.batch_stride + head * output.o.head_stride;
  for (size_t d = 0; d < merged.o.size(); ++d) {
    const double attended = merged.sum == 0.0 ? 0.0 : merged.o[d] / merged.sum;
    o[d] = static_cast<float>(mean == nullptr ? attended
                                              : alpha * attended + (1.0 - alpha) * static_cast<double>(mean[d]));
  }
  if (output.lse != nullptr) {
    output.lse[row] = merged.sum == 0.0 ? kMinusInfinity : static_cast<float>(merged.maximum + std::log(merged.sum));
  }
  // A maximum forgets a NaN, a sum does not.
  if (output.row_max != nullptr)
    output.row_max[row] = std::isnan(merged.sum) ? static_cast<float>(merged.sum) : merged.largest;
}

// The part of a selection that the problem's window lets its query see: other tokens weigh nothing.
DecodeSelection InWindow(const AttentionProblem& problem, const DecodeSelection& selection) {
  DecodeSelection inside = selection;
  const auto page_size = static_cast<size_t>(selection.page_size);
  const size_t row_length = selection.pages.size() * page_size;
  if (inside.weights.empty()) {
    inside.weights.assign(row_length, 1.0f);
    inside.weight_rows = 1;
  }
  const int64_t first = int64_t{problem.first_position} - problem.window + 1;
  for (size_t i = 0; i < inside.weights.size(); ++i) {
    const size_t number = i % row_length;
    const int64_t token =
        int64_t{selection.pages[number / page_size]} * selection.page_size + static_cast<int64_t>(number % page_size);
    if (token < first) inside.weights[i] = 0;
  }
  return inside;
}

}  // namespace

Status DecodeCpu(const AttentionProblem& problem, const DecodeSelection& selection, const AttentionOutput& output,
                 const RunOptions& options) {
  Status status = CheckDecode(problem, selection, output);
  if (!status.ok()) return status;
  const int64_t head_dim = problem.ValueDim();
  try {
    if (problem.window > 0) {
      AttentionProblem cut = problem;
      cut.window = 0;
      return DecodeCpu(cut, InWindow(problem, selection), output, options);
    }
    const std::vector<Slice> slices = CutIntoSlices(problem, selection);
    const CutQueries cut_queries(problem, selection);
    const auto num_slices = static_cast<int64_t>(slices.size());
    const int64_t num_rows = slices.back().first_row + slices.back().work.num_heads;
    std::vector<float> partial_o(static_cast<size_t>(num_rows * head_dim));
    std::vector<float> partial_lse(static_cast<size_t>(num_rows)), partial_max(partial_lse);
    const auto partial = [&](int64_t row) -> SliceOutput {
      return {partial_o.data() + row * head_dim, partial_lse.data() + row, partial_max.data() + row};
    };
    std::vector<std::unique_ptr<SliceScratch>> scratch(static_cast<size_t>(internal::NumWorkers(options, num_slices)));
    const int32_t most_heads = std::min(kMaxSliceRows, problem.GroupSize());
    status = internal::ShortParallelFor(num_slices, 1, options, [&](int64_t begin, int64_t end, int32_t worker) {
      std::unique_ptr<SliceScratch>& mine = scratch[static_cast<size_t>(worker)];
      if (mine == nullptr) mine = std::make_unique<SliceScratch>(most_heads, problem.head_dim, problem.ValueDim());
      for (int64_t i = begin; i < end; ++i) {
        const Slice& slice = slices[static_cast<size_t>(i)];
        HWY_DYNAMIC_DISPATCH(AttendSlice)
        (slice.by_components ? cut_queries.problem() : problem, WithTokens(slice, selection.page_size, *mine),
         partial(slice.first_row), *mine);
      }
    });
    if (!status.ok()) return status;

    for (size_t i = 0; i < slices.size();) {
      const DecodeSlice& first = slices[i].work;
      size_t end = i + 1;
      while (end < slices.size() && slices[end].work.sequence == first.sequence && slices[end].work.head == first.head)
        ++end;
      for (int32_t head = 0; head < first.num_heads; ++head) {
        Merged merged;
        merged.o.assign(static_cast<size_t>(head_dim), 0.0);
        for (size_t slice = i; slice < end; ++slice) {
          merged.Add(partial(slices[slice].first_row + head));
        }
        if (problem.sinks != nullptr) merged.AddSink(problem.sinks[first.head + head]);
        WriteHead(problem, selection, first.sequence, first.head + head, merged, output);
      }
      i = end;
    }
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory for the partial results of " +
                                          std::to_string(NumTokens(selection, problem.seq_k)) + " tokens"};
  }
  return {};
}

}  // namespace headscope::kernels
#endif  // HWY_ONCE
