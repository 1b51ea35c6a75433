// SPDX-License-Identifier: Apache-2.0
#include "line_sums.h"

#include <algorithm>
#include <cmath>

#include "head_groups.h"
#include "internal/element.h"
#include "key_blocks.h"

namespace headscope::kernels::internal {
namespace {

// Rows whose scores are held at once: rows * keys * 4 bytes.
constexpr int32_t kRowsPerBlock = 24;

}  // namespace

PackedKeys PackVisibleKeys(const AttentionProblem& problem, int32_t sequence, int32_t kv_head) {
  const int64_t offset = sequence * problem.k.batch_stride + kv_head * problem.k.head_stride;
  const void* keys = static_cast<const char*>(problem.k.data) + offset * SizeOf(problem.dtype);
  return PackedKeys(keys, problem.dtype, problem.k.row_stride, NumVisibleKeys(problem), problem.head_dim);
}

void LineProbe::AddRow(float* __restrict__ scores, int64_t num_columns, const float* lse, const float* sink,
                       LineSums* sums) {
  const int64_t begin = problem_.window > 0 ? std::max<int64_t>(0, num_columns - problem_.window) : 0;
  const int64_t seen = num_columns - begin;
  std::fill_n(scores, begin, 0.0f);
  float inverse = 1.0f;
  if (lse != nullptr) {
    ExpInPlace(scores + begin, seen, *lse);
  } else {
    float top = MaxOf(scores + begin, seen);
    if (sink != nullptr) top = std::max(top, *sink);
    const float of_sink = sink == nullptr ? 0.0f : std::exp(*sink - top);
    inverse = 1.0f / (ExpInPlace(scores + begin, seen, top) + of_sink);
  }
  float* const __restrict__ columns = sums->columns.data();
  float* const __restrict__ slashes = sums->slashes.data();
  // Two loops, one per direction, that the compiler turns into vector code; the probabilities are in the cache.
  for (int64_t j = 0; j < num_columns; ++j) columns[j] += scores[j] * inverse;
  if (sums->slashes.empty()) return;
  for (int64_t o = 0; o < num_columns; ++o) slashes[o] += scores[num_columns - 1 - o] * inverse;
}

void LineProbe::Sum(const PackedKeys& keys, int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end,
                    LineSums* sums) {
  sums->columns.assign(static_cast<size_t>(keys.seq_k()), 0.0f);
  sums->slashes.assign(static_cast<size_t>(keys.seq_k()), 0.0f);
  Probe(keys, sequence, head, row_begin, row_end, /*lse=*/nullptr, /*sink=*/nullptr, sums);
}

void LineProbe::SumColumns(const PackedKeys& keys, int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end,
                           const float* lse, LineSums* sums) {
  sums->columns.clear();
  AddColumns(keys, sequence, head, row_begin, row_end, lse, sums);
}

void LineProbe::AddColumns(const PackedKeys& keys, int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end,
                           const float* lse, LineSums* sums) {
  sums->columns.resize(static_cast<size_t>(keys.seq_k()), 0.0f);
  sums->slashes.clear();
  Probe(keys, sequence, head, row_begin, row_end, lse, problem_.sinks == nullptr ? nullptr : problem_.sinks + head,
        sums);
}

void LineProbe::Probe(const PackedKeys& keys, int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end,
                      const float* lse, const float* sink, LineSums* sums) {
  const int32_t head_dim = problem_.head_dim;
  const float scale = problem_.EffectiveScale();
  queries_.resize(static_cast<size_t>(kRowsPerBlock) * static_cast<size_t>(head_dim));
  for (int32_t begin = row_begin; begin < row_end && !options_.stop.stop_requested(); begin += kRowsPerBlock) {
    const int32_t num_rows = std::min(kRowsPerBlock, row_end - begin);
    for (int32_t i = 0; i < num_rows; ++i) {
      const int64_t offset =
          sequence * problem_.q.batch_stride + head * problem_.q.head_stride + (begin + i) * problem_.q.row_stride;
      LoadRow(problem_.q.data, problem_.dtype, offset, head_dim, queries_.data() + int64_t{i} * head_dim);
    }
    const int32_t last_position = problem_.first_position + begin + num_rows - 1;
    const int64_t row_length = int64_t{last_position} + 1;
    scores_.resize(static_cast<size_t>(num_rows * row_length));
    ScoreBlock(queries_.data(), head_dim, num_rows, keys, 0, last_position + 1, scale, problem_.soft_cap,
               scores_.data(), row_length);
    for (int32_t i = 0; i < num_rows; ++i) {
      AddRow(scores_.data() + i * row_length, row_length - (num_rows - 1 - i),
             lse != nullptr ? lse + begin + i : nullptr, sink, sums);
    }
  }
}

}  // namespace headscope::kernels::internal
