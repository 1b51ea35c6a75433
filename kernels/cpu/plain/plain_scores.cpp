// SPDX-License-Identifier: Apache-2.0
// Blocks of scores without vector code. Packed keys are fp32 rows, one after the other.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "aligned_floats.h"
#include "internal/element.h"
#include "kernels/cpu_scores.h"

namespace headscope::kernels {

void PackedKeys::Free::operator()(float* p) const {
  FreeAlignedFloats()(p);
}

PackedKeys::PackedKeys(int32_t seq_k, int32_t head_dim)
    : seq_k_(seq_k), head_dim_(head_dim), data_(AllocateFloats(int64_t{seq_k} * head_dim).release()) {}

PackedKeys::PackedKeys(const void* k, DType dtype, int64_t row_stride, int32_t seq_k, int32_t head_dim)
    : PackedKeys(seq_k, head_dim) {
  for (int64_t row = 0; row < seq_k; ++row)
    internal::LoadRow(k, dtype, row * row_stride, head_dim, data_.get() + row * head_dim);
}

PackedKeys PackedKeys::OfGroups(const void* k, DType dtype, int64_t row_stride, int32_t seq_k, int32_t head_dim,
                                int32_t size) {
  PackedKeys keys((seq_k + size - 1) / size, size * head_dim);
  std::fill_n(keys.data_.get(), int64_t{keys.seq_k_} * keys.head_dim_, 0.0f);
  for (int64_t row = 0; row < seq_k; ++row) {
    const int64_t place = row / size * size + size - 1 - row % size;
    internal::LoadRow(k, dtype, row * row_stride, head_dim, keys.data_.get() + place * head_dim);
  }
  return keys;
}

void ScoreBlock(const float* q, int64_t q_stride, int32_t num_rows, const PackedKeys& keys, int32_t column_begin,
                int32_t column_end, float scale, float soft_cap, float* scores, int64_t ld) {
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t column = column_begin; column < column_end; ++column) {
      const float* const key = keys.data() + column * keys.head_dim();
      double dot = 0;
      for (int32_t d = 0; d < keys.head_dim(); ++d)
        dot += static_cast<double>(q[row * q_stride + d]) * static_cast<double>(key[d]);
      const auto score = static_cast<float>(static_cast<double>(scale) * dot);
      scores[row * ld + column - column_begin] = soft_cap > 0 ? soft_cap * std::tanh(score / soft_cap) : score;
    }
  }
}

float ExpInPlace(float* row, int64_t n, float shift) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    constexpr float kLeast = -86.6f;  // what lies below gives 0, as in the vector code
    row[i] = row[i] - shift < kLeast ? 0.0f : std::exp(row[i] - shift);
    sum += static_cast<double>(row[i]);
  }
  return static_cast<float>(sum);
}

float MaxOf(const float* row, int64_t n) {
  float maximum = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) maximum = std::max(maximum, row[i]);
  return maximum;
}

RowShare MoveAboveToFront(float* values, int64_t n, float bound, float* /*scratch*/) {
  const auto key = [](float value) { return std::bit_cast<int32_t>(value); };
  float* const end = std::stable_partition(values, values + n, [&](float value) { return key(value) > key(bound); });
  RowShare above;
  above.count = end - values;
  for (const float* value = values; value != end; ++value) above.sum += static_cast<double>(*value);
  return above;
}

}  // namespace headscope::kernels
