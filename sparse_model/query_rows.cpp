// SPDX-License-Identifier: Apache-2.0
#include "query_rows.h"

#include <algorithm>

namespace headscope::sparse_model {

int64_t QueryRows::Wanted(int64_t num_rows) const {
  return most_ == 0 ? 0 : std::min(num_rows, most_ + kSpareRows);
}

void QueryRows::Append(const kernels::AttentionProblem& rows, int64_t first, const float* lse) {
  if (first != first_ + count_) {
    q_.clear();
    lse_.clear();
    first_ = first;
    count_ = 0;
  }
  num_heads_ = rows.num_qo_heads;
  head_dim_ = rows.head_dim;
  element_bytes_ = SizeOf(rows.dtype);
  const int64_t row_bytes = num_heads_ * head_dim_ * element_bytes_;
  const auto* const q = static_cast<const std::byte*>(rows.q.data);
  for (int64_t row = 0; row < rows.seq_q; ++row) {
    for (int64_t head = 0; head < num_heads_; ++head) {
      const std::byte* const vector = q + (head * rows.q.head_stride + row * rows.q.row_stride) * element_bytes_;
      q_.insert(q_.end(), vector, vector + head_dim_ * element_bytes_);
      lse_.push_back(lse[head * rows.seq_q + row]);
    }
  }
  count_ += rows.seq_q;
  // Seldom, so that a row is moved once on average.
  if (const int64_t kept = most_ + kSpareRows; count_ > 2 * kept) {
    const int64_t dropped = count_ - kept;
    q_.erase(q_.begin(), q_.begin() + dropped * row_bytes);
    lse_.erase(lse_.begin(), lse_.begin() + dropped * num_heads_);
    first_ += dropped;
    count_ = kept;
  }
}

void QueryRows::Rewind(int64_t num_tokens) {
  count_ = std::clamp<int64_t>(num_tokens - first_, 0, count_);
  q_.resize(static_cast<size_t>(count_ * num_heads_ * head_dim_ * element_bytes_));
  lse_.resize(static_cast<size_t>(count_ * num_heads_));
}

void QueryRows::Show(kernels::DecodePrompt* prompt) {
  kernels::AttentionProblem& cache = prompt->cache;
  const int64_t end = int64_t{prompt->first_token} + cache.seq_k;
  const int64_t rows =
      count_ > 0 && end == first_ + count_ ? std::min({int64_t{most_}, count_, int64_t{cache.seq_k}}) : 0;
  cache.seq_q = static_cast<int32_t>(rows);
  cache.first_position = cache.seq_k - cache.seq_q;
  prompt->lse = nullptr;
  if (rows == 0) return;
  const int64_t row_elements = num_heads_ * head_dim_;
  cache.q = {q_.data() + (count_ - rows) * row_elements * element_bytes_, 0, head_dim_, row_elements};
  shown_.resize(static_cast<size_t>(num_heads_ * rows));
  for (int64_t head = 0; head < num_heads_; ++head) {
    for (int64_t row = 0; row < rows; ++row)
      shown_[static_cast<size_t>(head * rows + row)] =
          lse_[static_cast<size_t>((count_ - rows + row) * num_heads_ + head)];
  }
  prompt->lse = shown_.data();
  prompt->lse_head_stride = rows;
  prompt->lse_batch_stride = rows * num_heads_;
}

}  // namespace headscope::sparse_model
